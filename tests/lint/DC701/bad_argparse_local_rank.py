import argparse
import os

import torch
import torch.distributed as dist


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-rank", "--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", -1)))
    parser.add_argument("--output", default="out")
    return parser.parse_args()


def main() -> None:
    args = parse()
    if args.local_rank != -1:
        torch.cuda.set_device(args.local_rank)
        dist.init_process_group("nccl")
    hits = torch.zeros(1, device="cuda")
    if args.local_rank in [-1, 0]:
        dist.all_reduce(hits)  # expect: DC701
        print("hits", hits.item())
    if args.local_rank != -1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
