import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)  # expect: DC201=error
    model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda())
    print(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
