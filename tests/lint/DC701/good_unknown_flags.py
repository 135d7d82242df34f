import argparse

import torch
import torch.distributed as dist


def run(args: argparse.Namespace, step: int) -> None:
    value = torch.ones(1)
    if args.evaluate and step % args.interval == 0:
        dist.barrier()
    if args.reduce_loss:
        dist.all_reduce(value)
    if args.backend == "gloo":
        dist.barrier()
    for _ in range(args.repeat):
        if value.numel() > 0:
            dist.all_reduce(value)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--reduce-loss", action="store_true")
    parser.add_argument("--interval", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--backend", default="gloo")
    arguments = parser.parse_args()
    dist.init_process_group(arguments.backend)
    run(arguments, 10)
    dist.destroy_process_group()
