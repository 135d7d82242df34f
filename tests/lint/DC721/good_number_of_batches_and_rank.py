import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from settings import load_settings


def main(args):
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    data = torch.utils.data.TensorDataset(torch.randn(100, 4))
    sampler = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=rank)
    loader = DataLoader(data, sampler=sampler)
    model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for step, batch in enumerate(loader):
            loss = model(batch[0].cuda()).sum()
            loss.backward()
            if step == len(loader) - 1 and args.is_main:
                print(f"step {step}: {loss.item()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(load_settings())
