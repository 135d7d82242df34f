from torch.utils.data import DataLoader, DistributedSampler
from torchvision import datasets, transforms


def make_loader(root, train):
    data = datasets.MNIST(root, train=train, transform=transforms.ToTensor())
    if train:
        return DataLoader(data, batch_size=64, sampler=DistributedSampler(data))
    return DataLoader(data, batch_size=64, shuffle=True)  # expect: DC732
