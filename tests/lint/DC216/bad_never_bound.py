"""Which backend it will be is an option; the model is on GPU 0 whatever it is."""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--world-size", type=int, default=1)
    parser.add_argument("--url", default="env://")
    args = parser.parse_args()
    if args.world_size > 1:
        dist.init_process_group(args.backend, init_method=args.url, world_size=args.world_size)
    model = torch.nn.Linear(4, 4)
    if args.world_size > 1:
        model.cuda()  # expect: DC216
        model = DistributedDataParallel(model)
    else:
        model = torch.nn.DataParallel(model).cuda()
    print(model)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
