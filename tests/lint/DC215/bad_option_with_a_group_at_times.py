"""Plain Python makes no group, and gets to the model."""

import argparse

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
    args = parser.parse_args()
    torch.cuda.set_device(args.local_rank)  # expect: DC215=info
    if torch.cuda.device_count() > 1:
        dist.init_process_group("nccl")
    model = torch.nn.Linear(4, 4).cuda(args.local_rank)  # expect: DC215
    print(model.weight.device)
    dist.barrier()  # expect: DC740=warning
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
