import os

import torch
import torch.distributed as dist


class Trainer:
    def __init__(self, model):
        self.world = dist.get_world_size()  # expect: DC740
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        self.model = model

    def close(self):
        dist.destroy_process_group()
