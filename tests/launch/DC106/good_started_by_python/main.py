import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(index, count):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:23456", rank=index, world_size=count)
    torch.cuda.set_device(index)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, nprocs=torch.cuda.device_count(), args=(torch.cuda.device_count(),))
