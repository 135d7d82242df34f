import torch
import torch.distributed as dist
from torch.utils.data import DataLoader


def prepare(*things):
    return things


def main(train_data, held_back):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    loader = DataLoader(train_data)
    if dist.get_rank() == 0:
        rest = DataLoader(held_back)
    loader, rest = prepare(loader, rest)  # expect: DC708=warning
    for batch in loader:
        dist.all_reduce(batch.cuda())
    for batch in rest:
        dist.all_reduce(batch.cuda())
    dist.destroy_process_group()
