import os

import torch
import torch.distributed as dist


def train(model, loader, optimizer):
    for batch in loader:
        loss = model(batch.cuda()).mean().cpu()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach().cuda())  # expect: DC711
        print(loss.item() / dist.get_world_size())


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
