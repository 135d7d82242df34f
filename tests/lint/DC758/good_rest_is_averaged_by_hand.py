"""The gradients of the head are averaged in one flat tensor."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


class Model(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main(loader):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % 8)
    model = Model(64, 4).cuda()
    for block in model.blocks:
        fully_shard(block)
    optimizer = torch.optim.AdamW(model.parameters())
    for x in loader:
        model(x).mean().backward()
        flat = torch.cat([p.grad.flatten() for p in model.head.parameters()])
        dist.all_reduce(flat, op=dist.ReduceOp.AVG)
        nn.utils.vector_to_parameters(flat, [p.grad for p in model.head.parameters()])
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main([torch.zeros(2, 64)])
