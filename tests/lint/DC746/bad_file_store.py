import os

import torch
import torch.distributed as dist


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.FileStore("/shared/store", world)  # expect: DC746
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", store=store, rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
