import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class EarlyStopping:
    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def __call__(self, value: float) -> bool:
        if value < self.best:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad > self.patience


def train(network: torch.nn.Module, batches: list, epochs: int) -> None:
    stopper = EarlyStopping(3)
    model = DDP(network)
    for epoch in range(epochs):
        total = 0.0
        for batch in batches:
            loss = model(batch).mean()
            loss.backward()
            total += loss.item()
        if stopper(total / len(batches)):
            break  # expect: DC707


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(torch.nn.Linear(4, 1), [torch.rand(2, 4)], 10)
    dist.destroy_process_group()
