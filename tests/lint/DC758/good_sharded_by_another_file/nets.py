"""Blocks, and a function that shards them. What shards the rest is a parameter."""

from torch import nn
from torch.distributed.fsdp import fully_shard


class Big(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def shard(net, wrap):
    for block in net.blocks:
        fully_shard(block)
    wrap(net)
