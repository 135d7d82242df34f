import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    if dist.get_rank() == 0:
        writer = SummaryWriter("runs")
        name = "run"
        print(name)
    for step in range(100):
        writer.add_scalar("step", step, step)  # expect: DC708
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
