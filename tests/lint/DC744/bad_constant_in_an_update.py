import os

import torch
import torch.distributed as dist

PORT = 12802


class Runner:
    def __init__(self):
        os.environ.update({"MASTER_PORT": str(PORT), "OMP_NUM_THREADS": "4"})  # expect: DC744
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(backend="nccl")

    def close(self):
        dist.destroy_process_group()
