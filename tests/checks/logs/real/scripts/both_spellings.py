"""It takes the argument of the old launcher in both spellings."""

import argparse

import torch.distributed as dist


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int)
    print(f"local rank {parser.parse_args().local_rank}", flush=True)
    dist.init_process_group("gloo")
    dist.barrier()
    print("training done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
