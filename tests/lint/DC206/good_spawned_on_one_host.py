"""The index of the process is rank and GPU: what the barrier guesses is the GPU that the tensors are on."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, count):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:23456", rank=rank, world_size=count)  # expect: DC206=info
    tensor = torch.ones(1, device=torch.device("cuda", rank))
    dist.broadcast(tensor, src=0)
    dist.barrier()


if __name__ == "__main__":
    mp.spawn(work, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
