import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def synchronize() -> None:
    if dist.is_initialized() and dist.get_world_size() > 1:
        dist.barrier()


def worker(local_rank, gpus, machine, machines, address):
    dist.init_process_group(
        "nccl", init_method=address, world_size=machines * gpus, rank=machine * gpus + local_rank
    )
    dist.barrier(device_ids=[local_rank])
    torch.cuda.set_device(local_rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank])
    model(torch.ones(1, 4, device="cuda")).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    mp.spawn(worker, nprocs=count, args=(count, 0, 1, "tcp://127.0.0.1:29511"))
