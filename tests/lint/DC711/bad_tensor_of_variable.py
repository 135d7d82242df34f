import torch
import torch.distributed as dist


def accuracy(model, loader, device):
    correct, seen = 0, 0
    for images, labels in loader:
        correct += (model(images.to(device)).argmax(1).cpu() == labels).sum().item()
        seen += len(labels)
    dist.all_reduce(torch.tensor(correct, device=device))  # expect: DC711
    dist.all_reduce(torch.tensor(seen, device=device))  # expect: DC711
    return correct / seen
