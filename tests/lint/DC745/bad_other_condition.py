import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, world, port):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


count = torch.cuda.device_count()
if count > 1:
    mp.spawn(worker, args=(count, free_port()), nprocs=count)  # expect: DC745
