import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return torch.full((3, 8, 8), float(index))


def main():
    for batch in DataLoader(Images(), batch_size=4, num_workers=2, pin_memory=True):
        print(batch.cuda(non_blocking=True).mean())


if __name__ == "__main__":
    main()
