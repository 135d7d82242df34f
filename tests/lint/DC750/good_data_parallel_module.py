import torch


def main() -> None:
    model = torch.nn.DataParallel(torch.nn.Linear(16, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        loss = model.module(torch.randn(8, 16, device="cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
