import argparse
from sys import argv

import torch.distributed as dist

fp16 = argv.pop() == "--fp16"
parser = argparse.ArgumentParser()
parser.add_argument("--epochs")
args = parser.parse_args()
dist.init_process_group("nccl")
print(args, fp16)
dist.destroy_process_group()
