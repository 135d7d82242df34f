import argparse

import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--epochs")
args = parser.parse_args()
dist.init_process_group("nccl")
print(args)
dist.destroy_process_group()
