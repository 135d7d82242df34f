import torch
import torch.distributed as dist
from torch.optim.lr_scheduler import ReduceLROnPlateau


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 4).parameters(), lr=0.1)
    first = ReduceLROnPlateau(optimizer, patience=10, verbose=True)  # expect: DC760=error
    second = torch.optim.lr_scheduler.StepLR(optimizer, 30, verbose=False)  # expect: DC760=error
    dist.destroy_process_group()
    return first, second


if __name__ == "__main__":
    main()
