import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        return torch.full((3, 8, 8), float(index)).cuda()


for batch in DataLoader(Images(), batch_size=4):
    print(batch.mean())
for batch in DataLoader(Images(), batch_size=4, num_workers=0):
    print(batch.mean())
