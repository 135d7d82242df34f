import torch


def main() -> None:
    model = torch.nn.DataParallel(torch.nn.Linear(16, 4))
    model.to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        model(torch.randn(8, 16, device="cuda")).mean().backward()
        optimizer.step()
        model.cpu()
        model.cuda()


if __name__ == "__main__":
    main()
