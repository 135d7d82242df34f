"""One GPU is left visible to all of the processes that are spawned."""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = "0"  # expect: DC303

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402


def worker(index, size):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.cuda.set_device(index)
    dist.init_process_group("nccl", rank=index, world_size=size)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
