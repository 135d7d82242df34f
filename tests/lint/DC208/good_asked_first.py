import os

import torch
import torch.distributed as dist


def main():
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        print("rank", int(os.environ["RANK"]), "of", int(os.environ["WORLD_SIZE"]))
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        dist.destroy_process_group()
    else:
        print("one process")


if __name__ == "__main__":
    main()
