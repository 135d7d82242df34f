import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(index, epochs):
    torch.cuda.set_device(index)
    dist.init_process_group("nccl")
    for _ in range(epochs):
        dist.barrier()
    dist.destroy_process_group()


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    print(f"started as local rank {local_rank}")
    mp.spawn(worker, args=(3,), nprocs=torch.cuda.device_count())  # expect: DC106


if __name__ == "__main__":
    main()
