import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return torch.full((3, 8, 8), float(index)).cuda()  # expect: DC218


def main():
    for batch in DataLoader(Images(), batch_size=4, num_workers=2):
        print(batch.mean())


if __name__ == "__main__":
    main()
