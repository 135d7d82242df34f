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


def load(model, path):
    if os.path.exists(path):
        model.load_state_dict(torch.load(path, map_location="cpu"))
        log("loaded", path)  # expect: DC708
    return model


def train(model):
    for step in range(100):
        loss = model(torch.randn(8, 8).cuda()).sum()
        loss.backward()
        if dist.get_rank() == 0:
            writer.add_scalar("loss", loss.item(), step)
    writer.close()  # expect: DC708


def main():
    global log
    if dist.get_rank() == 0:
        log = print
    model = DDP(load(torch.nn.Linear(8, 8).cuda(), "model.pt"))
    train(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
