import argparse
import os

import misc
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(args) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    network = torch.nn.Linear(8, 8).cuda()
    first = misc.resume(args.resume, network) if args.resume else 0
    model = DDP(network, device_ids=[local_rank])
    for epoch in range(first, args.epochs):
        model(torch.randn(4, 8, device="cuda")).mean().backward()
        misc.save_on_master({"model": network.state_dict(), "epoch": epoch, "args": args}, "checkpoint.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume")
    parser.add_argument("--epochs", type=int, default=10)
    main(parser.parse_args())
