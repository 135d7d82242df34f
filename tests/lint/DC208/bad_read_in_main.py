import os

import torch
import torch.distributed as dist


def main():
    rank = int(os.environ["RANK"])  # expect: DC208
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if rank == 0:
        print("ready")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
