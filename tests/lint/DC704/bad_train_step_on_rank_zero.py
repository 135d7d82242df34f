import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def warm_up(steps: int) -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(4, 1))
    if dist.get_rank() == 0:
        for _ in range(steps):
            model(torch.rand(2, 4)).sum().backward()  # expect: DC704
    dist.destroy_process_group()


if __name__ == "__main__":
    warm_up(3)
