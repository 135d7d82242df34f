import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    names = [None] * dist.get_world_size()
    dist.all_gather_object(names, os.uname().nodename)  # expect: DC616
    print(names)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
