import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


class Logger:
    """What its configuration decides is the same on all ranks."""

    def __init__(self, config):
        self.low_rank = config.LOW_RANK
        self.saves = config.SAVES and config.EPOCHS > 1

    def end(self, model):
        if self.saves:
            torch.save(model.state_dict(), "net.pth")  # expect: DC720=warning


def worker(rank, config):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=config.SIZE)
    model = DDP(torch.nn.Linear(5, 5).cuda(rank), device_ids=[rank])
    Logger(config).end(model.module)
    dist.destroy_process_group()


def start(config):
    mp.spawn(worker, args=(config,), nprocs=config.SIZE)
