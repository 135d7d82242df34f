import torch
from torch.utils.data import DataLoader, TensorDataset


def collate(items):
    return torch.stack([item[0] for item in items]).to("cuda")  # expect: DC218


def main():
    data = TensorDataset(torch.arange(100.0))
    for batch in DataLoader(data, batch_size=4, num_workers=4, collate_fn=collate):
        print(batch.sum())


if __name__ == "__main__":
    main()
