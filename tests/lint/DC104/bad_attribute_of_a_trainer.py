import os

import torch
import torch.distributed as dist


class Trainer:
    def __init__(self, address, port):
        self.rank = int(os.environ["RANK"])
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.size = int(os.environ["WORLD_SIZE"])
        self.url = "tcp://{}:{}".format(address, port)

    def connect(self):
        torch.cuda.set_device(self.local_rank)
        dist.init_process_group("nccl", init_method=self.url, rank=self.rank, world_size=self.size)  # expect: DC104

    def close(self):
        dist.destroy_process_group()
