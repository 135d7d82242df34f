"""The rank is one of several that a helper returns; without a group it returns zeros."""

import os

import torch
import torch.distributed as dist


def init(args):
    if not args.several:
        return 0, 0, 1
    dist.init_process_group("nccl")
    return int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])


def run(args, model):
    rank, local_rank, world_size = init(args)
    torch.cuda.set_device(local_rank)
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
    if rank == 0:
        torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    run(None, None)
