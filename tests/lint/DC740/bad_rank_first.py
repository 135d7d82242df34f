import os

import torch
import torch.distributed as dist


def main():
    rank = dist.get_rank()  # expect: DC740
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    print("rank", rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
