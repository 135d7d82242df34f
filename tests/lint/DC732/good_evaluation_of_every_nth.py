import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    found = 0
    for i, (x, y) in enumerate(loader):
        if i % dist.get_world_size() != dist.get_rank():
            continue
        found += (model(x.cuda()).argmax(1).cpu() == y).sum().item()
    return found / len(loader.dataset)


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    others = DataLoader(data, batch_size=4, shuffle=False)
    model = DDP(torch.nn.Linear(8, 2).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
        accuracy = evaluate(model, others)
        if dist.get_rank() == 0:
            print(accuracy)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
