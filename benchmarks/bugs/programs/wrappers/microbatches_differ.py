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
    microbatches = 4 if rank == 0 else 2
    schedule = ScheduleGPipe(stage, n_microbatches=microbatches, loss_fn=F.mse_loss)
    for _ in range(2):
        if rank == 0:
            schedule.step(torch.randn(8, 8))
        else:
            losses = []
            schedule.step(target=torch.zeros(8, 8), losses=losses)
            print(f"loss {sum(loss.item() for loss in losses):.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
