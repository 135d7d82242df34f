import torch
from torch import nn


def main() -> None:
    model = nn.Linear(16, 4)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)  # expect: DC755
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        loss = model(torch.randn(64, 16).cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
