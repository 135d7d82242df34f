"""With several nodes the spawned index 0 is there once on each."""

import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(gpu, args):
    torch.cuda.set_device(gpu)
    rank = args.node_rank * args.per_node + gpu
    dist.init_process_group("nccl", init_method=args.url, rank=rank, world_size=args.nodes * args.per_node)
    model = torch.nn.Linear(4, 4).cuda(gpu)
    if gpu == 0:
        torch.save(model.state_dict(), "model.pt")  # expect: DC217
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--per-node", type=int, default=8)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    mp.spawn(worker, args=(options,), nprocs=options.per_node)
