import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, size, tensor):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29555", rank=rank, world_size=size)
    torch.cuda.set_device(rank)
    parts = [torch.zeros_like(tensor) for _ in range(torch.cuda.device_count())]
    dist.all_gather(parts, tensor)
    dist.all_reduce(tensor)
    mean = tensor / torch.cuda.device_count()
    if rank == 0:
        print(parts, mean)
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = torch.cuda.device_count()
    mp.spawn(worker, args=(ranks, torch.ones(2)), nprocs=ranks)
