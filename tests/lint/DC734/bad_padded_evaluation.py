import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = torch.zeros(2, device="cuda")
    for batch, labels in loader:
        right[0] += (model(batch.cuda()).argmax(1) == labels.cuda()).sum()
        right[1] += len(labels)
    dist.all_reduce(right)
    return (right[0] / right[1]).item()


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(101, 8), torch.zeros(101, dtype=torch.long))
    test_sampler = DistributedSampler(data, shuffle=False)  # expect: DC734
    test_loader = DataLoader(data, batch_size=8, sampler=test_sampler)
    evaluate(DDP(torch.nn.Linear(8, 4).cuda(), device_ids=[local_rank]), test_loader)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
