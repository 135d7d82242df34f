import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def demo(index, world_size, init_file):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", init_method=init_file, rank=index, world_size=world_size)
    model = DDP(torch.nn.Linear(4, 4).cuda(index), device_ids=[index])
    model(torch.ones(1, 4, device=index)).sum().backward()
    torch.save(model.module.state_dict(), os.path.join("out", "demo.pt"))  # expect: DC720
    dist.destroy_process_group()


def run(function, world_size):
    mp.spawn(function, args=(world_size, f"file:///tmp/demo-{os.getpid()}"), nprocs=world_size)


if __name__ == "__main__":
    run(demo, torch.cuda.device_count())
