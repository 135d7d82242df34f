"""One of two callers gives the helper tensors of the GPU."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def write(path: str, state: dict) -> None:
    torch.save(state, path)


def main(args: argparse.Namespace, batches: list) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    net = torch.nn.Linear(4, 4).cuda()
    if args.resume:
        net.load_state_dict(torch.load(os.path.join(args.out, "last.pt"))["model"])  # expect: DC723
    model = DDP(net, device_ids=[local_rank])
    for batch in batches:
        model(batch).sum().backward()
    if dist.get_rank() == 0:
        write(os.path.join(args.out, "last.pt"), {"model": net.state_dict()})
        write(os.path.join(args.out, "host.pt"), {"model": {k: v.cpu() for k, v in net.state_dict().items()}})
    dist.destroy_process_group()


if __name__ == "__main__":
    main(argparse.Namespace(out="out", resume=False), [])
