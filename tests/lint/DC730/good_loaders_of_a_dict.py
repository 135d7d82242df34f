import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def by_comprehension():
    data = {part: TensorDataset(torch.randn(1000, 8)) for part in ["train", "val"]}
    samplers = {part: DistributedSampler(data[part]) for part in ["train", "val"]}
    return {part: DataLoader(data[part], batch_size=4, sampler=samplers[part]) for part in ["train", "val"]}


def one_by_one():
    train = TensorDataset(torch.randn(1000, 8))
    loaders = {}
    loaders["train"] = DataLoader(train, batch_size=4, sampler=DistributedSampler(train))
    loaders["val"] = DataLoader(TensorDataset(torch.randn(100, 8)), batch_size=4)
    return loaders


def made_for_each_epoch(epoch):
    for seed in range(epoch, epoch + 1):
        data = TensorDataset(torch.randn(1000, 8))
        yield DataLoader(data, batch_size=4, sampler=DistributedSampler(data, seed=seed))


class Solver:
    def __init__(self, model, loaders):
        self.model = model
        self.loaders = loaders

    def walk(self, part, epoch):
        self.loaders[part].sampler.set_epoch(epoch)
        for (batch,) in self.loaders[part]:
            loss = self.model(batch.cuda()).sum()
            if part == "train":
                loss.backward()

    def fit(self, epochs):
        for epoch in range(epochs):
            self.walk("train", epoch)
            self.walk("val", epoch)


def walk_all(model, loaders, epochs):
    for epoch in range(epochs):
        for part, loader in loaders.items():
            if part == "train":
                loader.sampler.set_epoch(epoch)
            for (batch,) in loader:
                loss = model(batch.cuda()).sum()
                if part == "train":
                    loss.backward()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend="nccl")
    model = DDP(torch.nn.Linear(8, 1).cuda())
    Solver(model, by_comprehension()).fit(10)
    walk_all(model, one_by_one(), 10)
    for epoch in range(10):
        for loader in made_for_each_epoch(epoch):
            for (batch,) in loader:
                model(batch.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
