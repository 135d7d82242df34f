"""The same with processes of multiprocessing."""

import multiprocessing
import os

import torch
import torch.distributed as dist


def worker(index, world_size):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", rank=index, world_size=world_size)
    dist.barrier()
    dist.destroy_process_group()


def main():
    world_size = torch.cuda.device_count()
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=worker, args=(index, world_size)) for index in range(world_size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
