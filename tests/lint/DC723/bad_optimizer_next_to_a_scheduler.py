"""The state of the optimizer has tensors of the GPU, that of the scheduler has none."""

import os

import torch
import torch.distributed as dist


def train(args, model, optimizer, scheduler):
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    optimizer.load_state_dict(torch.load(os.path.join(args.folder, "optimizer.pt")))  # expect: DC723
    scheduler.load_state_dict(torch.load(os.path.join(args.folder, "scheduler.pt")))
    both = torch.load(args.checkpoint)  # expect: DC723
    model.load_state_dict(both["model"])
    scheduler.load_state_dict(both["scheduler"])


train(*map(object, range(4)))
