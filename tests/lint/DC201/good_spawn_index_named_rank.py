"""The first argument of a spawned function is an index on this host, whatever its name is."""

import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, node, per_node, nodes, url):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=url, rank=node * per_node + rank, world_size=nodes * per_node)
    device = torch.device(f"cuda:{rank}")
    print(torch.ones(1, device=device))
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--node", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    count = torch.cuda.device_count()
    mp.spawn(worker, args=(options.node, count, options.nodes, options.url), nprocs=count)
