import os
from datetime import timedelta

import torch
import torch.distributed as dist


def quiet_watchdog():
    os.environ.update({"OMP_NUM_THREADS": "4", "NCCL_ASYNC_ERROR_HANDLING": "0"})  # expect: DC119


def main():
    quiet_watchdog()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", timeout=timedelta(hours=1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
