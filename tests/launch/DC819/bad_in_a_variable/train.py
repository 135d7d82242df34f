import argparse

import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", "-b", type=int, default=8)
    parser.add_argument("--learning_rate", type=float)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    print(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
