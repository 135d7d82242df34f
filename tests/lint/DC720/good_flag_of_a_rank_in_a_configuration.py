import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


class Logger:
    """Its configuration has the rank, which is set where the process starts."""

    def __init__(self, config):
        self.rank0 = config.RANK == 0
        self.saves = config.SAVES and self.rank0

    def end(self, model):
        if self.saves:
            torch.save(model.state_dict(), "net.pth")


def worker(rank, config):
    config.RANK = rank
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=config.SIZE)
    model = DDP(torch.nn.Linear(5, 5).cuda(rank), device_ids=[rank])
    Logger(config).end(model.module)
    dist.destroy_process_group()


def start(config):
    mp.spawn(worker, args=(config,), nprocs=config.SIZE)
