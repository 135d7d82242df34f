import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.tensorboard import SummaryWriter

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl")
if dist.get_rank() == 0:
    writer = SummaryWriter("runs")
    notes = open("notes.txt", "w")
    meter = SummaryWriter("meters")


def note(text):
    notes.write(text)


def close():
    if dist.get_rank() != 0:
        return
    writer.close()


def of_its_own():
    writer = SummaryWriter(f"runs/{dist.get_rank()}")
    writer.add_scalar("rank", dist.get_rank())


def given(writer):
    writer.add_scalar("rank", dist.get_rank())


def tried():
    try:
        writer.flush()
    except NameError:
        pass


def late():
    global meter
    meter = SummaryWriter(f"meters/{dist.get_rank()}")
    meter.add_scalar("rank", dist.get_rank())


def never_called():
    writer.flush()


def train(model):
    for step in range(100):
        loss = model(torch.randn(8, 8).cuda()).sum()
        loss.backward()
        if dist.get_rank() == 0:
            note(f"{step} {loss.item()}")
    close()
    of_its_own()
    given(SummaryWriter(f"given/{dist.get_rank()}"))
    tried()
    late()
    meter.close()


if __name__ == "__main__":
    train(DDP(torch.nn.Linear(8, 8).cuda()))
    dist.destroy_process_group()
