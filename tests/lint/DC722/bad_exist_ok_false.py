import os

import torch
import torch.distributed as dist


def make(path):
    if os.path.exists(path):
        return
    os.makedirs(  # expect: DC722
        path,
        exist_ok=False,  # every rank but the first raises
    )


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    make("out")
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
