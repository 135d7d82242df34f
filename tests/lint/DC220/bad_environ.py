import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))  # expect: DC220
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
