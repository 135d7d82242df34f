"""Tensors that have as many elements as the data of a rank decide are reduced, and gathered into equal ones."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def label_counts(loader, device):
    total = torch.zeros(10, dtype=torch.long, device=device)
    for _, labels in loader:
        counts = torch.bincount(labels.to(device))
        dist.all_reduce(counts)  # expect: DC709=warning
        total += counts
    return total


def wrong_ones(model, loader, device):
    found = []
    for images, labels in loader:
        predictions = model(images.to(device)).argmax(dim=1)
        wrong = torch.nonzero(predictions != labels.to(device))
        parts = [torch.zeros_like(wrong) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, wrong)  # expect: DC709=warning
        found.extend(parts)
    return found


def main(data, model):
    dist.init_process_group("nccl")
    device = torch.device("cuda", dist.get_rank() % 8)
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False))
    label_counts(loader, device)
    wrong_ones(model, loader, device)
    dist.destroy_process_group()
