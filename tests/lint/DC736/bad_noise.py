import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SEED = 7
torch.manual_seed(SEED)  # expect: DC736


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(4, 4))
    for _ in range(10):
        noise = torch.randn(8, 4)
        model(noise).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
