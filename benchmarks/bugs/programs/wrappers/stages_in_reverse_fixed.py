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
    index = rank
    layer = nn.Linear(8, 8)
    stage = PipelineStage(layer, index % world_size, world_size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=F.mse_loss)
    x = torch.randn(4, 8)
    if rank == 0:
        schedule.step(x)
    else:
        schedule.step(target=x)
    print(f"rank {rank}: {layer.weight.grad.norm().item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
