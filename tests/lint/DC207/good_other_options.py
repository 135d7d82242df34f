import argparse
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank_file", default=None)
    parser.add_argument("--lora-rank", type=int, default=8)
    parser.add_argument("local_rank_report", nargs="?")
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    print(args.local_rank_file, args.lora_rank, args.local_rank_report)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
