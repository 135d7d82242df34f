"""Each caller gives the helper a device of its rank, or the CPU; the class is never constructed. A note."""
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


class Unused:
    def prepare(self):
        return torch.zeros(1, device="cuda")


def detector(device=torch.device("cpu")):
    return torch.nn.Linear(8, 8).to(device)


def work(rank, size):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29501", rank=rank, world_size=size)  # expect: DC206=info
    model = detector(torch.device("cuda", rank))
    detector()
    dist.barrier()
    print(model(torch.zeros(8, device=torch.device("cuda", rank))).sum())


if __name__ == "__main__":
    size = int(sys.argv[1])
    mp.spawn(work, args=(size,), nprocs=size)
