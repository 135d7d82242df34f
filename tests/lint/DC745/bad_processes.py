import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def worker(rank, world):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world)
    dist.barrier()
    dist.destroy_process_group()


os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29500")
mp.set_start_method("spawn")
processes = []
for index in range(2):
    process = mp.Process(target=worker, args=(index, 2))
    process.start()  # expect: DC745
    processes.append(process)
for process in processes:
    process.join()  # expect: DC748=warning
