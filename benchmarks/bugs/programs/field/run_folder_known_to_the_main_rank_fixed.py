import argparse
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def is_main():
    return dist.get_rank() == 0


class Run:
    """The folder of this run, and what is written into it."""

    def __init__(self, root, name):
        self.folder = None
        if is_main():
            self.folder = Path(root) / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
            self.folder.mkdir(parents=True)
        shared = [self.folder]
        dist.broadcast_object_list(shared, src=0)
        self.folder = shared[0]

    def log(self, text):
        if is_main():
            with (self.folder / "log.txt").open("a") as file:
                file.write(text + "\n")

    def save_random_state(self, epoch):
        state = {"torch": torch.get_rng_state(), "epoch": epoch}
        torch.save(state, self.folder / f"random_state_{dist.get_rank()}.pt")

    def save_model(self, model, optimizer, epoch):
        if is_main():
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            torch.save(state, self.folder / "last.pt")


class Trainer:
    def __init__(self, model, run, args):
        self.model, self.run, self.args = DDP(model), run, args
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr)

    def train_epoch(self, x, y):
        for inputs, targets in zip(x.split(self.args.batch_size), y.split(self.args.batch_size)):
            loss = nn.functional.mse_loss(self.model(inputs), targets)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def fit(self, x, y):
        for epoch in range(self.args.epochs):
            loss = self.train_epoch(x, y)
            self.run.log(f"epoch {epoch}: loss {loss:.4f}")
            if (epoch + 1) % self.args.save_every == 0:
                self.run.save_model(self.model, self.optimizer, epoch)
                self.run.save_random_state(epoch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="runs")
    parser.add_argument("--name", default="baseline")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--save-every", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    run = Run(args.output, args.name)
    trainer = Trainer(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1)), run, args)
    x = torch.randn(32, 4)
    trainer.fit(x, x.sum(dim=1, keepdim=True))
    dist.barrier()
    del trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
