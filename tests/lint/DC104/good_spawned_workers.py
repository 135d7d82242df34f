import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def worker(index, size, url):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", init_method=url, rank=index, world_size=size)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    mp.spawn(worker, args=(count, f"tcp://127.0.0.1:{free_port()}"), nprocs=count)
