import argparse

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(index, count, args):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:23456", rank=index, world_size=count)
    torch.cuda.set_device(index)
    print(args.epochs)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=90)
    args = parser.parse_args()
    count = torch.cuda.device_count()
    mp.spawn(worker, nprocs=count, args=(count, args))


if __name__ == "__main__":
    main()
