import torch
import torch.distributed as dist
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR


class Printing(StepLR):
    def __init__(self, optimizer, step_size, verbose=False):
        super().__init__(optimizer, step_size)
        self.verbose = verbose


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    optimizer = torch.optim.SGD(torch.nn.Linear(4, 4).parameters(), lr=0.1)
    try:
        scheduler = ReduceLROnPlateau(optimizer, verbose=True)
    except TypeError:
        scheduler = ReduceLROnPlateau(optimizer)
    dist.destroy_process_group()
    return scheduler, Printing(optimizer, 30, verbose=True)


if __name__ == "__main__":
    main()
