"""The worker keeps both: its index for the device, its rank for the group."""

import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(gpu, args):
    rank = args.node_rank * args.gpus + gpu
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl", init_method=args.url, rank=rank, world_size=args.nodes * args.gpus)
    model = torch.nn.Linear(4, 4).cuda(gpu)
    print(model.weight.device, dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    mp.spawn(worker, args=(options,), nprocs=options.gpus)
