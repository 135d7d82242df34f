"""The engine that is made first binds the GPU; the second call changes nothing."""

import os

import torch
import torch.distributed as dist


class Engine:
    def __init__(self, local_rank):
        self.local_rank = local_rank
        torch.cuda.set_device(self.local_rank)
        dist.init_process_group("nccl")

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        dist.destroy_process_group()


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    with Engine(local_rank=local_rank) as engine:
        model = torch.nn.Linear(4, 4).cuda()
        torch.cuda.set_device(local_rank)
        model = torch.nn.parallel.DistributedDataParallel(model)
        print(model, engine)


if __name__ == "__main__":
    main()
