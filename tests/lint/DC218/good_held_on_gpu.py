"""Data that lie on the GPU on purpose: their loader has no workers."""

import torch
from torch.utils.data import DataLoader, Dataset


class OnDevice(Dataset):
    def __init__(self, values):
        self.values = values.cuda()

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]


class OnHost(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        return index


fast = DataLoader(OnDevice(torch.ones(100)), batch_size=10)
slow = DataLoader(OnHost(), batch_size=10, num_workers=4)
print(len(fast), len(slow))
