import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return torch.full((3, 8, 8), float(index)).cuda()


if __name__ == "__main__":
    for batch in DataLoader(Images(), num_workers=2, multiprocessing_context="spawn"):
        print(batch.mean())
