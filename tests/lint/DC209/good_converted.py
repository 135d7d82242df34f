import os

import torch
import torch.distributed as dist


def main():
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if rank == 0 and int(os.environ["WORLD_SIZE"]) > 1:
        print("main process of many")
    if int(os.environ.get("LOCAL_RANK", 0)) == 0:
        print("first of this host")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
