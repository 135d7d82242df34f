import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


def main():
    rank, world_size = init_distributed()
    torch.manual_seed(rank)
    stage = PipelineStage(nn.Linear(8, 8), rank, world_size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=F.mse_loss)
    inputs = torch.randn(20, 8).split(4)
    targets = torch.zeros(24, 8).split(4)
    for step in range(len(inputs) if rank == 0 else len(targets)):
        if rank == 0:
            schedule.step(inputs[step])
        else:
            schedule.step(target=targets[step])
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
