import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(index, world_size, init_file):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", init_method=init_file, rank=index, world_size=world_size)
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    dist.destroy_process_group()


def main():
    if not os.path.exists("out"):
        os.makedirs("out")
    count = torch.cuda.device_count()
    folder = tempfile.mkdtemp()
    mp.spawn(worker, (count, f"file://{folder}/init"), nprocs=count)


if __name__ == "__main__":
    main()
