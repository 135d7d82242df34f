"""The rank is an attribute of a trainer."""

import os

import torch


class Trainer:
    def __init__(self, model):
        self.rank = int(os.environ["RANK"])
        self.device = torch.device("cuda", self.rank)  # expect: DC201=info
        self.model = model.to(self.device)

    def step(self, batch):
        batch = batch.cuda(self.rank, non_blocking=True)  # expect: DC201=info
        return self.model(batch).sum()


if __name__ == "__main__":
    print(Trainer(torch.nn.Linear(4, 4)).step(torch.ones(2, 4)))
