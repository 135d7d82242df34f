import os

import torch
import torch.distributed as dist

rank = os.environ.get("SLURM_PROCID", "0")
world_size = os.environ["WORLD_SIZE"]


def report(text):
    if rank == 0:  # expect: DC209
        print(text)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if world_size > 1:  # expect: DC209
        dist.init_process_group("nccl")
        report("started")
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
