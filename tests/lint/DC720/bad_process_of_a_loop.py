import tempfile

import torch
import torch.distributed as dist
from torch.multiprocessing import Process
from torch.nn.parallel import DistributedDataParallel as DDP


def worker(trial, rank, world_size, init_method):
    dist.init_process_group("nccl", init_method=init_method, rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    model = DDP(torch.nn.Linear(5, 5).cuda(rank), device_ids=[rank])
    model(torch.zeros(1, 5, device=rank)).sum().backward()
    # the trial is the same in all processes of one job
    if trial == 0:
        torch.save(model.module.state_dict(), "net.pth")  # expect: DC720=warning
    dist.destroy_process_group()


def run(trial, count):
    processes, init_method = [], f"file://{tempfile.mkdtemp()}/rendezvous"
    for rank in range(count):
        process = Process(target=worker, args=(trial, rank, count, init_method))
        process.start()
        processes.append(process)
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(1)


if __name__ == "__main__":
    for trial in range(3):
        run(trial, torch.cuda.device_count())
