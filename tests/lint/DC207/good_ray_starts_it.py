import argparse

import torch.distributed as dist
from ray.train.torch import TorchTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = parser.parse_args()


def loop():
    dist.init_process_group("gloo")
    print(args.local_rank)


TorchTrainer(loop).fit()
