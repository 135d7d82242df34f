"""The world size undoes the mean of DDP, because the loss is divided by the samples of all ranks."""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for size in (3, 5):
        labels = torch.zeros(size, dtype=torch.long)
        count = torch.tensor(float(size))
        dist.all_reduce(count)
        loss = cross_entropy(model(torch.randn(size, 8)), labels, reduction="sum")
        loss = loss * dist.get_world_size() / count
        loss.backward()
        total = cross_entropy(model(torch.randn(size, 8)), labels, reduction="sum") * dist.get_world_size()
        total.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
