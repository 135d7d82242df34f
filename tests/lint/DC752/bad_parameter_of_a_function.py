import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def train(model: torch.nn.Module, batches: list, lr: float) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = model.to(local_rank)
    groups = [{"params": [p for n, p in model.named_parameters() if "bias" not in n], "weight_decay": 0.1}]
    optimizer = torch.optim.AdamW(groups, lr=lr)  # expect: DC752
    model = FSDP(model)
    for batch in batches:
        model(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
