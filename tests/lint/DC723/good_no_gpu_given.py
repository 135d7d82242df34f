import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=None)
parser.add_argument("--resume", default="")
parser.add_argument("--init-file", default="file:///tmp/init")
parser.add_argument("--node-rank", type=int, default=0)
parser.add_argument("--nodes", type=int, default=1)
parser.add_argument("--spawn", action="store_true")


def worker(gpu, world_size, args):
    args.gpu = gpu
    if args.spawn:
        torch.cuda.set_device(args.gpu)
        rank = args.node_rank * torch.cuda.device_count() + gpu
        dist.init_process_group("nccl", init_method=args.init_file, rank=rank, world_size=world_size)
    model = torch.nn.Linear(4, 4).cuda()
    if args.resume:
        if args.gpu is None:
            # one process that uses all GPUs
            checkpoint = torch.load(args.resume)
        else:
            checkpoint = torch.load(args.resume, map_location=f"cuda:{args.gpu}")
        model.load_state_dict(checkpoint["model"])
    if args.spawn:
        model = DDP(model, device_ids=[args.gpu])
    model(torch.ones(1, 4, device="cuda")).sum().backward()


def main():
    args = parser.parse_args()
    count = torch.cuda.device_count()
    if args.spawn:
        mp.spawn(worker, nprocs=count, args=(count * args.nodes, args))
    else:
        worker(args.gpu, 1, args)


if __name__ == "__main__":
    main()
