import argparse

import torch.distributed as dist
import torch.multiprocessing as mp
import torchvision
import yaml


def main(gpu, args):
    if args.nodes > 1:
        dist.init_process_group("nccl", rank=args.nr * args.gpus + gpu, world_size=args.world_size)
    torchvision.datasets.CIFAR10("data", download=True)  # expect: DC725
    if args.nr == 0:
        torchvision.datasets.MNIST("data", download=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name, value in yaml.safe_load(open("config.yaml")).items():
        parser.add_argument(f"--{name}", default=value, type=type(value))
    args = parser.parse_args()
    args.world_size = args.gpus * args.nodes
    if args.nodes > 1:
        mp.spawn(main, args=(args,), nprocs=args.gpus)
    else:
        main(0, args)
