"""A benchmark lets the whole device finish instead of each operation."""
import os
import time

import torch
import torch.distributed as dist


def bandwidth(size, rounds):
    buffer = torch.ones(size, device="cuda")
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(rounds):
        dist.all_reduce(buffer, async_op=True)
    torch.cuda.synchronize()
    return size * rounds / (time.perf_counter() - start)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    bandwidth(1 << 20, 10)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
