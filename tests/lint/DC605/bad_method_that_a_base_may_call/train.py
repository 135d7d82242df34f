import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from trainer import Plain, Trainer


def main():
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch.nn.Linear(2, 2))
    Trainer(model).fit()
    Plain().step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
