import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


@torch.no_grad()
def evaluate(network, loader):
    network.eval()
    return sum(network(batch.cuda()).sum().item() for (batch,) in loader)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(1024, 8))
    sampler = DistributedSampler(data)
    train_loader = DataLoader(data, batch_size=32, sampler=sampler)
    val_loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=32)
    model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for (batch,) in train_loader:
            model(batch.cuda()).sum().backward()
        if dist.get_rank() == 0:
            print(evaluate(model.module, val_loader))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
