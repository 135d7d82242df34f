"""The worker works out its global rank, and then takes that for the device."""

import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(gpu, args):
    args.rank = args.node_rank * args.gpus + gpu
    dist.init_process_group("nccl", init_method=args.url, rank=args.rank, world_size=args.nodes * args.gpus)
    torch.cuda.set_device(args.rank)  # expect: DC201
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    mp.spawn(worker, args=(options,), nprocs=options.gpus)
