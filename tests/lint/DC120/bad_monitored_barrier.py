import os
from datetime import timedelta

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.monitored_barrier(timeout=timedelta(seconds=30))  # expect: DC120
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
