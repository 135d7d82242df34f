"""One rank loads the best checkpoint to evaluate it, after the training of all."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model: DDP, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(4, 8)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(8, 8))
    train(model, 10)
    if dist.get_rank() == 0:
        model.module.load_state_dict(torch.load("best.pt", weights_only=True))
        print(model.module(torch.zeros(1, 8)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
