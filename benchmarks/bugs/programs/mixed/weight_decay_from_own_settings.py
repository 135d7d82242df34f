import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

NODES = {"node0": {"decay": 0.0, "workers": 4}, "node1": {"decay": 0.3, "workers": 8}}


def settings(rank):
    text = json.dumps(NODES[f"node{rank}"])
    found = {"decay": 0.0, "workers": 2}
    found.update(json.loads(os.environ.get("SETTINGS", text)))
    return found


def groups(model, decay):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(14)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 1)))
    decay = settings(rank)["decay"]
    optimizer = torch.optim.SGD(groups(ddp, decay), lr=0.1)
    torch.manual_seed(90 + rank)
    for step in range(6):
        x = torch.randn(8, 5)
        loss = (ddp(x).squeeze(1) - x.sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"rank {rank} loss {loss.item():.3f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
