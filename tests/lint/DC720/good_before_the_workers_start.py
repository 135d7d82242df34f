import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def worker(local_rank, world_size, init_file, weights):
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", init_method=init_file, rank=local_rank, world_size=world_size)
    model = torch.nn.Linear(4, 4)
    model.load_state_dict(torch.load(weights, map_location="cpu"))
    model = DDP(model.cuda(local_rank), device_ids=[local_rank])
    model(torch.ones(1, 4, device=local_rank)).sum().backward()
    dist.destroy_process_group()


def main():
    # one process so far
    torch.save(torch.nn.Linear(4, 4).state_dict(), "initial.pt")
    world_size = torch.cuda.device_count()
    init_file = "file://" + os.path.abspath(f"rendezvous-{os.getpid()}")
    mp.spawn(worker, args=(world_size, init_file, "initial.pt"), nprocs=world_size)
    torch.save({"done": True}, "done.pt")


if __name__ == "__main__":
    main()
