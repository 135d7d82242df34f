import argparse
import importlib

import torch
import torch.distributed as dist
from apply import replicate

# outputs = parallel_apply(replicas, inputs)


def configured(name):
    """Loads modules of the configuration, whose functions it names."""
    return vars(importlib.import_module(f"configs.{name}"))


def main():
    args = argparse.ArgumentParser().parse_args()
    print(vars(args))
    dist.init_process_group("gloo")
    replicas = replicate(torch.nn.Linear(2, 2), 2)
    print(len(replicas))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
