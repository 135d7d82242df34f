import os

import torch
from torch.distributed import all_reduce, destroy_process_group, init_process_group


def accuracy(model, loader, device):
    correct = torch.zeros(1)
    for images, labels in loader:
        hits = model(images.to(device)).argmax(1) == labels.to(device)
        correct += hits.sum().item()
    all_reduce(correct)  # expect: DC714
    return correct / len(loader.dataset)


def main(model, loader):
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    init_process_group("nccl", device_id=device)
    print(accuracy(model.to(device), loader, device))
    destroy_process_group()
