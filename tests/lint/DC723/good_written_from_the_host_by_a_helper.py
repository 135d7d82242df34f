"""Helpers write the files, with tensors that were moved to the CPU: by the caller, at once, or one by one."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def write(path: str, state: dict) -> None:
    torch.save(state, path)


def write_each(path: str, model: torch.nn.Module) -> None:
    state = model.state_dict()
    for key in state:
        state[key] = state[key].cpu()
    torch.save({"model": state}, path)


def main(args: argparse.Namespace, batches: list) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    net = torch.nn.Linear(4, 4).cuda()
    if args.resume:
        net.load_state_dict(torch.load(os.path.join(args.out, "last.pt"))["model"])
    if args.init:
        net.load_state_dict(torch.load(args.init))
    model = DDP(net, device_ids=[local_rank])
    for batch in batches:
        model(batch).sum().backward()
    if dist.get_rank() == 0:
        write(os.path.join(args.out, "last.pt"), {"model": {k: v.cpu() for k, v in net.state_dict().items()}})
        write_each(os.path.join(args.out, "each.pt"), net)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(argparse.Namespace(out="out", resume=False, init=""), [])
