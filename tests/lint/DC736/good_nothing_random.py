import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, transforms


def set_seeds(number):
    torch.manual_seed(number)


def train_loader(folder):
    transform = transforms.Compose([transforms.CenterCrop(224), transforms.ToTensor()])
    data = datasets.ImageFolder(folder, transform)
    return DataLoader(data, batch_size=32, sampler=DistributedSampler(data))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--data", default="images")
    args = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    set_seeds(args.seed)
    model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    loader = train_loader(args.data)
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for images, _ in loader:
            model(images.cuda()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
