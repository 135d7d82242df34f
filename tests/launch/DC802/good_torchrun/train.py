import os

import torch.distributed as dist


def main():
    print(int(os.environ["RANK"]))
    dist.init_process_group("nccl")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
