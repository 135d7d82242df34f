import torch
import torch.distributed as dist


class Exchange:
    def __init__(self, group, world_size):
        self.group = group
        self.world_size = world_size

    def __call__(self, chunks):
        received = [torch.empty_like(chunks[0])] * self.world_size  # expect: DC712
        dist.all_to_all(received, chunks, group=self.group)
        return received
