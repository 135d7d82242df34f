"""Each block is sharded, and the model around them is not: nothing averages its embedding and its head."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.embed = nn.Embedding(100, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 100)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def shard(model):
    for block in model.blocks:
        fully_shard(block)  # expect: DC758=warning
    return model


def main(loader):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % 8)
    model = shard(Model(64, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    for tokens in loader:
        model(tokens).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main([torch.zeros(2, 4, dtype=torch.long)])
