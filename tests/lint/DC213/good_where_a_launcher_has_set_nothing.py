import os

import torch
import torch.distributed as dist


def connect():
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        local = int(os.environ["LOCAL_RANK"])
    else:
        rank, local, size = 0, 0, torch.cuda.device_count()
        os.environ["MASTER_ADDR"] = "localhost"
        os.environ["MASTER_PORT"] = "12355"
        os.environ["RANK"] = "0"
        os.environ["WORLD_SIZE"] = str(size)
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", rank=rank, world_size=size)
    return local


if __name__ == "__main__":
    connect()
    dist.barrier()
    dist.destroy_process_group()
