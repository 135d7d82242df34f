import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter


def is_main():
    return dist.get_rank() == 0


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    if is_main():
        writer = SummaryWriter("runs")
    for step in range(100):
        if is_main():
            writer.add_scalar("step", step, step)
        text = str(writer) if is_main() else ""
        is_main() and writer.flush()
        print(f"{dist.get_rank()} {text}")
    if dist.get_rank() != 0:
        return
    writer.close()


if __name__ == "__main__":
    main()
