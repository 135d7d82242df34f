"""The function that shards the model itself is passed on."""

import torch
import torch.distributed as dist
from nets import Big, shard
from torch.distributed.fsdp import fully_shard


def main(loader):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % 8)
    net = Big()
    shard(net, wrap=fully_shard)
    optimizer = torch.optim.AdamW(net.parameters())
    for x in loader:
        net(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main([torch.zeros(2, 8)])
