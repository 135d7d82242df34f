import os

import numpy as np
import torch
import torch.distributed as dist


def cached_features(path):
    if not os.path.exists(path):
        np.save(path, np.zeros((8, 8)))
    return np.load(path)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    if rank != 0:
        dist.barrier()
    features = cached_features("features.npy")
    if rank == 0:
        dist.barrier()
    size = torch.tensor([len(features)], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
