import torch
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def noise(self):
        return torch.randn(8, device="cuda")  # expect: DC218

    def __getitem__(self, index):
        return self.noise() + index


loader = DataLoader(Points(50), num_workers=2)
print(len(loader))
