import argparse

import torch
import torch.distributed as dist


def train(config):
    dist.init_process_group("nccl")
    torch.cuda.set_device(config["local_rank"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)  # expect: DC207
    train(vars(parser.parse_args()))


main()
