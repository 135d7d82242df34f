import torch
import torch.distributed as dist


class LowRank(torch.nn.Module):
    def __init__(self, width, rank, alpha):
        super().__init__()
        self.down = torch.nn.Linear(width, rank)
        self.scale = alpha / rank


def main():
    dist.init_process_group("nccl")
    layers = LowRank(64, rank=8, alpha=16.0)
    print(dist.get_rank(), layers.scale)
    dist.destroy_process_group()
