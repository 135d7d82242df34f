"""Plain Python fails at the group, and torch.distributed.launch passes the option."""

import argparse

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
    args = parser.parse_args()
    torch.cuda.set_device(args.local_rank)  # expect: DC215=info
    dist.init_process_group("nccl")
    model = torch.nn.Linear(4, 4).cuda(args.local_rank)  # expect: DC215=info
    print(model.weight.device)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
