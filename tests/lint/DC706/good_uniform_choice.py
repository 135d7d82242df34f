import argparse

import torch
import torch.distributed as dist


def make(args: argparse.Namespace) -> dist.ProcessGroup | None:
    if args.tensor_parallel > 1:
        return dist.new_group(range(args.tensor_parallel))
    if dist.get_backend() == "nccl":
        return dist.new_group(backend="gloo")
    return None


def everyone() -> dist.ProcessGroup:
    return dist.new_group(list(range(dist.get_world_size())))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensor-parallel", type=int, default=1)
    dist.init_process_group("gloo")
    make(parser.parse_args())
    dist.all_reduce(torch.ones(1), group=everyone())
    dist.destroy_process_group()
