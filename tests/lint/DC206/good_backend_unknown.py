"""Which backend it will be is not known here."""

import argparse

import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="gloo")
args = parser.parse_args()
dist.init_process_group(args.backend)
dist.barrier()
dist.destroy_process_group()
