import torch
import torch.distributed as dist
from tqdm import tqdm, trange


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    for _ in tqdm(range(100), disable=dist.get_rank() != 0):
        dist.barrier()
    for _ in trange(100, desc=f"rank {dist.get_rank()}"):
        dist.barrier()
    steps = range(100)
    if dist.get_rank() == 0:
        steps = tqdm(steps)
        print("start")
    for _ in steps:
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
