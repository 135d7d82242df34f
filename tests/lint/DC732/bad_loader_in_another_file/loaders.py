from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def make_loader(root):
    data = datasets.MNIST(root, train=True, transform=transforms.ToTensor())
    return DataLoader(data, batch_size=64, shuffle=True, drop_last=True)  # expect: DC732=error
