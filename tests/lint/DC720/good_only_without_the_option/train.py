"""The option that starts the group is tested again: without it there is one process."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def run(args):
    if args.multi_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(backend="nccl", init_method="env://")
    model = torch.nn.Linear(2, 2).cuda()
    if args.multi_gpu:
        model = DistributedDataParallel(model)
    model(torch.ones(2, 2, device="cuda")).sum().backward()
    if not args.multi_gpu:
        torch.jit.save(torch.jit.script(model), os.path.join(args.output, "model-final.ts"))
    if args.multi_gpu:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--multi_gpu", type=lambda text: text == "true", default="false")
    parser.add_argument("--output", default="out")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
