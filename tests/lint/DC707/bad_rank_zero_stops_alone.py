import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(batches: list, epochs: int, patience: int) -> None:
    model = DDP(torch.nn.Linear(4, 1))
    waited = 0
    for epoch in range(epochs):
        for batch in batches:
            model(batch).mean().backward()
        waited += 1
        if dist.get_rank() == 0 and waited > patience:
            print("stopping early")
            break  # expect: DC707


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train([torch.rand(2, 4)], 10, 3)
    dist.destroy_process_group()
