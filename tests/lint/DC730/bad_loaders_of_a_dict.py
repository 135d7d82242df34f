import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

PARTS = ["train", "val"]


def by_comprehension():
    data = {part: TensorDataset(torch.randn(1000, 8)) for part in PARTS}
    samplers = {part: DistributedSampler(data[part]) for part in ["train", "val"]}  # expect: DC730
    return {part: DataLoader(data[part], batch_size=4, sampler=samplers[part]) for part in PARTS}


def one_by_one():
    train = TensorDataset(torch.randn(1000, 8))
    loaders = {}
    loaders["train"] = DataLoader(train, batch_size=4, sampler=DistributedSampler(train))  # expect: DC730
    loaders["val"] = DataLoader(TensorDataset(torch.randn(100, 8)), batch_size=4)
    return loaders


def in_a_loop():
    loaders = {}
    for part in ("train", "val"):
        data = TensorDataset(torch.randn(1000, 8))
        sampler = DistributedSampler(data, shuffle=part == "train")  # expect: DC730
        loaders[part] = DataLoader(data, batch_size=4, sampler=sampler)
    return loaders


class Solver:
    def __init__(self, model, loaders):
        self.model = model
        self.loaders = loaders

    def walk(self, part):
        for (batch,) in self.loaders[part]:
            loss = self.model(batch.cuda()).sum()
            if part == "train":
                loss.backward()

    def fit(self, epochs):
        for _ in range(epochs):
            self.walk("train")
            self.walk("val")


def walk_all(model, loaders, epochs):
    for _ in range(epochs):
        for part, loader in loaders.items():
            for (batch,) in loader:
                loss = model(batch.cuda()).sum()
                if part == "train":
                    loss.backward()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend="nccl")
    model = DDP(torch.nn.Linear(8, 1).cuda())
    Solver(model, by_comprehension()).fit(10)
    Solver(model, in_a_loop()).fit(10)
    walk_all(model, one_by_one(), 10)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
