import argparse

import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.parse_args()
dist.init_process_group("gloo")
