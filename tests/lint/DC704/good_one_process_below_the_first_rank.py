"""The inner test leaves the run without other ranks, where nothing is wrapped."""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def evaluate(options, network, batches):
    if options.gpus > 1 and not isinstance(network, torch.nn.DataParallel):
        network = torch.nn.DataParallel(network)
    return sum(float(network(batch).mean()) for batch in batches)


def train(options, network, batches):
    if options.local_rank != -1:
        network = DDP(network)
    for step, batch in enumerate(batches):
        network(batch).mean().backward()
        if options.local_rank in [-1, 0] and step % 10 == 0:
            if options.local_rank == -1 and options.evaluate:
                print(evaluate(options, network, batches))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--evaluate", action="store_true")
    options = parser.parse_args()
    if options.local_rank != -1:
        dist.init_process_group("gloo")
    batches = [torch.rand(4, 8)]
    train(options, torch.nn.BatchNorm1d(8), batches)
    if options.local_rank in [-1, 0]:
        # a network of its own, from the file that was saved
        print(evaluate(options, torch.nn.BatchNorm1d(8), batches))


if __name__ == "__main__":
    main()
