import argparse
import os

import torch
import torch.distributed as dist
from model import wrapped

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo")
args = parser.parse_args()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group(args.backend)
print(wrapped())
dist.destroy_process_group()
