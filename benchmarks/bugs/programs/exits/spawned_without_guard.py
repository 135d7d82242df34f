import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, world_size, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)
    value = torch.ones(1)
    dist.all_reduce(value)
    print(f"rank {rank}: {value.item()}")
    dist.destroy_process_group()
mp.spawn(worker, args=(2, 29778), nprocs=2)
