"""All layers with parameters are sharded; the others have none."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.act = nn.Sequential(nn.GELU(), nn.Dropout(0.1))
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.act(self.norm(x))


def main(loader):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % 8)
    model = Model(64, 4).cuda()
    for block in model.blocks:
        fully_shard(block)
    optimizer = torch.optim.AdamW(model.parameters())
    for x in loader:
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main([torch.zeros(2, 64)])
