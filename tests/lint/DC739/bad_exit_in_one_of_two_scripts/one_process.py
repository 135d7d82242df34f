import torch
from evaluation import validate
from torch.utils.data import DataLoader, TensorDataset


def main():
    model = torch.nn.BatchNorm1d(4).cuda()
    loader = DataLoader(TensorDataset(torch.randn(100, 4), torch.ones(100, 4)))
    for epoch in range(30):
        model(torch.ones(5, 4).cuda()).sum().backward()
        if validate(model, loader) > 5:
            break


if __name__ == "__main__":
    main()
