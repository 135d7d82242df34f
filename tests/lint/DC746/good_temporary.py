"""A new file for each run."""
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, world, path):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{path}", rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = torch.cuda.device_count()
        mp.spawn(worker, args=(world, f"{folder}/rendezvous"), nprocs=world)


if __name__ == "__main__":
    main()
