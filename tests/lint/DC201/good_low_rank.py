"""A rank of matrices: no rank of a job."""

import argparse

import torch


class LowRank(torch.nn.Module):
    def __init__(self, size, rank):
        super().__init__()
        self.rank = rank
        self.down = torch.nn.Linear(size, rank, bias=False)
        self.up = torch.nn.Linear(rank, size, bias=False)

    def forward(self, batch):
        return self.up(self.down(batch)) / self.rank


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lora-rank", type=int, default=8)
    args = parser.parse_args()
    device = torch.device("cuda")
    layer = LowRank(64, args.lora_rank).to(device)
    print(layer(torch.ones(1, 64, device=device)))
