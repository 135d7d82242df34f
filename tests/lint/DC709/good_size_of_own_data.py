"""The number of elements is given, is exchanged before, or comes from data that all ranks share."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def label_counts(loader, device):
    for _, labels in loader:
        counts = torch.bincount(labels.to(device), minlength=10)
        dist.all_reduce(counts)
        again = torch.bincount(labels.to(device), None, 10)
        dist.all_reduce(again)
        third = labels.to(device).bincount(minlength=10)
        dist.all_reduce(third)
        masked = torch.where(labels > 3, labels, torch.zeros_like(labels))
        dist.all_reduce(masked)


def weights(targets):
    counts = torch.bincount(torch.tensor(targets)).cuda()
    dist.all_reduce(counts)
    return counts


def wrong_ones(model, loader, device, largest):
    found = []
    for images, labels in loader:
        predictions = model(images.to(device)).argmax(dim=1)
        wrong = torch.nonzero(predictions != labels.to(device))
        count = torch.tensor([len(wrong)], device=device)
        dist.all_reduce(count, op=dist.ReduceOp.MAX)
        padded = torch.zeros(largest, 1, dtype=torch.long, device=device)
        padded[: len(wrong)] = wrong
        parts = [torch.zeros_like(padded) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, padded)
        found.extend(parts)
    return found


def main(data, model):
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % 8)
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False))
    label_counts(loader, device)
    weights([1, 2, 3])
    wrong_ones(model, loader, device, 100)
    dist.destroy_process_group()
