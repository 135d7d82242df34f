import os

import torch
import torch.distributed as dist


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if not rank:
        print("main process")
    quiet = bool(rank)
    label = "worker" if rank else "main"
    if rank or quiet:
        print("one of the others", label)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
