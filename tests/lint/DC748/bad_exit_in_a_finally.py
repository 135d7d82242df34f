import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(model, optimizer, batches):
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        train(model, optimizer, [torch.ones(2, 4)])
    except KeyboardInterrupt:
        print("interrupted")
    finally:
        dist.destroy_process_group()
        sys.exit(0)  # expect: DC748


if __name__ == "__main__":
    main()
