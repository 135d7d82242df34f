"""A context manager takes the index as well."""

import torch
import torch.distributed as dist


def summed(values):
    with torch.cuda.device(dist.get_rank()):  # expect: DC201=info
        total = torch.tensor(values).cuda()
        dist.all_reduce(total)
    return total


def main():
    dist.init_process_group("nccl")
    print(summed([1.0, 2.0]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
