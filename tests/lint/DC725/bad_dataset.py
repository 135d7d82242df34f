import os

import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    tensors = torchvision.transforms.ToTensor()
    data = torchvision.datasets.CIFAR10("data", train=True, download=True, transform=tensors)  # expect: DC725
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    model = DDP(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, 10)).cuda(), device_ids=[local_rank])
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
