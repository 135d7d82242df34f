import argparse

import torch
import torch.distributed as dist

URL = "tcp://localhost:10001"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int)
    parser.add_argument("--world-size", type=int)
    parser.add_argument("--gpu", type=int)
    args = parser.parse_args()
    torch.cuda.set_device(args.gpu)
    dist.init_process_group("nccl", URL, world_size=args.world_size, rank=args.rank)  # expect: DC744
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
