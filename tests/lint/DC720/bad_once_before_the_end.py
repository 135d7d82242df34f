import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def keep(state):
    torch.save(state, "last.pt")  # expect: DC720=warning


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    for step in range(10):
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        if step == 8:
            keep({"step": step, "model": model.module.state_dict()})
            break
    dist.destroy_process_group()


main()
