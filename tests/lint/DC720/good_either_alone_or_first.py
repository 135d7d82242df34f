import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    args = parser.parse_args()
    args.rank = int(os.environ.get("RANK", -1))
    args.gpu = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(args.gpu)
    if args.distributed:
        dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8).cuda()
    if args.distributed:
        model = DDP(model, device_ids=[args.gpu])
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    state = model.state_dict()
    if not args.distributed or (args.distributed and args.rank == 0):
        torch.save(state, "a.pt")
    if args.rank in {-1, 0}:
        torch.save(state, "b.pt")
    if args.rank < 1:
        torch.save(state, "c.pt")
    master_process = args.rank == 0 if args.distributed else True
    if master_process:
        torch.save(state, "d.pt")
    if os.environ.get("RANK", "0") == "0":
        torch.save(state, "e.pt")
    if args.distributed and dist.get_rank() != 0:
        pass
    else:
        torch.save(state, "f.pt")


if __name__ == "__main__":
    main()
