import argparse

import torch


def build(args, model):
    return model.cuda(args.local_rank)


parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", default=-1, type=int)
args = parser.parse_args()
if torch.cuda.is_available():
    args.local_rank = torch.device("cuda")
else:
    args.local_rank = torch.device("cpu")
build(args, torch.nn.Linear(2, 2))
