import torch
import torch.distributed as dist


def worker(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()
