import torch
from comm import cleanup, setup


def main():
    setup()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    model(torch.ones(1, 4).cuda()).sum().backward()
    cleanup()


if __name__ == "__main__":
    main()
