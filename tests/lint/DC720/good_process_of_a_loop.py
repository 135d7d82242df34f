import tempfile

import torch
import torch.distributed as dist
from torch.multiprocessing import Process
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, rank):
    model(torch.zeros(1, 5, device=rank)).sum().backward()
    if rank == 0:
        torch.save(model.module.state_dict(), "net.pth")


def worker(rank, world_size, init_method):
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    model = DDP(torch.nn.Linear(5, 5).cuda(rank), device_ids=[rank])
    train(model, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    count, init_method = torch.cuda.device_count(), f"file://{tempfile.mkdtemp()}/rendezvous"
    processes = []
    for rank in range(count):
        process = Process(target=worker, args=(rank, count, init_method))
        process.start()
        processes.append(process)
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(1)
