"""Both lines run in the workers; the device was chosen at the top of the file."""

import torch
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Points(Dataset):
    def __init__(self):
        self.points = torch.ones(10)

    def __len__(self):
        return 10

    def __getitem__(self, index):
        point = self.points[index].to(device)  # expect: DC218
        label = torch.tensor(1, device="cuda")  # expect: DC218
        return point, label


def loader():
    return DataLoader(Points(), batch_size=2, shuffle=True, num_workers=4)


for batch in loader():
    print(len(batch))
