import torch
import torch.distributed as dist
import torch.multiprocessing as mp

PORT = 45123


def worker(index, size):
    torch.cuda.set_device(index)
    url = f"tcp://127.0.0.1:{PORT}"
    dist.init_process_group("nccl", init_method=url, rank=index, world_size=size)  # expect: DC402
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
