"""With several nodes the spawned index is no rank of the job."""

import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.utils.data import TensorDataset
from torch.utils.data.distributed import DistributedSampler


def worker(gpu, args):
    rank = args.node_rank * args.per_node + gpu
    world_size = args.nodes * args.per_node
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl", init_method=args.url, rank=rank, world_size=world_size)
    data = TensorDataset(torch.arange(100.0))
    print(len(DistributedSampler(data, num_replicas=world_size, rank=gpu, shuffle=False)))  # expect: DC219
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--per-node", type=int, default=8)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    mp.spawn(worker, args=(options,), nprocs=options.per_node)
