import argparse

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-rank", dest="gpu", type=int, default=-1)  # expect: DC207
    args, _ = parser.parse_known_args()
    if args.gpu != -1:
        torch.cuda.set_device(args.gpu)
        dist.init_process_group("nccl")
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
