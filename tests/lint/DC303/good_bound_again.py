"""All ranks begin on GPU 0; each binds its own before the first collective."""

import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(gpu, args):
    if args.distributed:
        dist.init_process_group("nccl", init_method="tcp://127.0.0.1:20001", world_size=args.gpus, rank=gpu)
    torch.cuda.set_device(0)
    model = torch.nn.Linear(4, 4)
    if args.distributed:
        torch.cuda.set_device(gpu)
        model = torch.nn.parallel.DistributedDataParallel(model.cuda(gpu), device_ids=[gpu])
    model(torch.randn(2, 4, device="cuda")).sum().backward()
    if args.distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    args = parser.parse_args()
    args.gpus = torch.cuda.device_count()
    mp.spawn(worker, nprocs=args.gpus, args=(args,))
