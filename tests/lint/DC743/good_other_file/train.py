import os

import torch
import torch.distributed as dist

from comm import cleanup


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.barrier()
    cleanup()


if __name__ == "__main__":
    main()
