import os

import torch
import torch.distributed as dist


def reduce_all(tensors):
    dist.all_reduce_multigpu(tensors)  # expect: DC760=error


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    reduce_all([torch.ones(1, device="cuda")])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
