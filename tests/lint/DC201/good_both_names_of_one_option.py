"""The launcher fills the option under its second name: it is the local rank, whatever it is called."""
import argparse

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", "--local_rank", default=0, type=int)
    parser.add_argument("--local-rank", dest="other", default=0, type=int)
    args = parser.parse_args()
    torch.cuda.set_device(args.rank)
    dist.init_process_group("nccl")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
