import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def resume(model, optimizer, path):
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return model, optimizer, state["epoch"]


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(4, 4).cuda(local_rank))
    optimizer = torch.optim.Adam([{"params": [p], "name": f"{local_rank}/{n}"} for n, p in model.named_parameters()])
    start = 0
    if os.path.exists("last.pt"):
        model, optimizer, start = resume(model, optimizer, "last.pt")
    for epoch in range(start, 10):
        model(torch.ones(1, 4, device="cuda")).sum().backward()
        optimizer.step()
        torch.save(model.module.state_dict(), os.path.join("out", f"epoch_{epoch}.pt"))  # expect: DC720
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
