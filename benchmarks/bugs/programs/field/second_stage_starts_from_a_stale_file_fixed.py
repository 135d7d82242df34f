import argparse
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def is_main():
    return dist.get_rank() == 0


def reduce_mean(value):
    value = value.detach().clone()
    dist.all_reduce(value)
    return value / dist.get_world_size()


class BestCheckpoint:
    def __init__(self, path):
        self.path = Path(path)
        self.best = float("inf")

    def update(self, model, loss, epoch):
        if loss >= self.best:
            return
        self.best = loss
        if is_main():
            # a large model on a slow file system
            time.sleep(2)
            torch.save({"model": model.module.state_dict(), "epoch": epoch, "loss": loss}, self.path)

    def restore(self, model):
        dist.barrier()
        state = torch.load(self.path, map_location="cpu")
        model.module.load_state_dict(state["model"])
        return state["epoch"]


class Trainer:
    def __init__(self, model, data, args):
        self.model, self.data, self.args = DDP(model), data, args
        self.checkpoint = BestCheckpoint("best.pt")

    def run_stage(self, epochs, lr):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)
        inputs, targets = self.data
        for epoch in range(epochs):
            for x, y in zip(inputs.split(self.args.batch_size), targets.split(self.args.batch_size)):
                loss = nn.functional.mse_loss(self.model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            self.checkpoint.update(self.model, self.evaluate().item(), epoch)

    @torch.no_grad()
    def evaluate(self):
        inputs, targets = self.data
        return reduce_mean(nn.functional.mse_loss(self.model.module(inputs), targets))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(4)
    inputs = torch.randn(32, 6, generator=generator)
    targets = inputs.sum(dim=1, keepdim=True)
    torch.manual_seed(0)
    trainer = Trainer(nn.Linear(6, 1), (inputs[rank::world_size], targets[rank::world_size]), args)
    trainer.run_stage(args.epochs, args.lr)
    epoch = trainer.checkpoint.restore(trainer.model)
    if is_main():
        print(f"the second stage starts from epoch {epoch}")
    trainer.run_stage(1, args.lr / 10)
    del trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
