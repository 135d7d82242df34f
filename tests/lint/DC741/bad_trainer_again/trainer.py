import torch.distributed as dist


class Trainer:
    def __init__(self, model):
        dist.init_process_group("nccl")
        self.model = model

    def fit(self):
        dist.barrier()
