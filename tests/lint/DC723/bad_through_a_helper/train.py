import argparse
import os

import torch
import torch.distributed as dist
from restoring import restore
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume")
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    start = restore(args.resume, model, optimizer) if args.resume else 0
    model = DDP(model, device_ids=[local_rank])
    for _ in range(start, 10):
        model(torch.randn(4, 8, device="cuda")).sum().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
