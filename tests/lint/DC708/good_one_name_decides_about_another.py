"""What is read depends on a name that the same rank assigned; a node finds its own ranks in a loop."""

import os

import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    logs = False
    if dist.get_rank() == 0:
        writer = SummaryWriter("runs")
        logs = True
    for number in range(dist.get_world_size()):
        if number == dist.get_rank():
            mine = number
    try:
        writer.add_text("first", str(mine))
    except NameError:
        print(f"{dist.get_rank()} has no writer")
    for step in range(100):
        if logs:
            writer.add_scalar("step", step, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
