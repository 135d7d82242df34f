"""A switch of an object decides whether a run gets there: that is no proof."""

import os

import torch
import torch.distributed as dist


def share(dataset, rank: int) -> None:
    if dataset.image_weights:
        if rank != -1:
            indices = torch.zeros([dataset.n], dtype=torch.int)
            dist.broadcast(indices, 0)  # expect: DC714=warning
            dataset.indices = indices


def main(dataset) -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    share(dataset, dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main(torch.load("dataset.pt"))
