import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(net, batches, criterion, device):
    dist.init_process_group("nccl", device_id=device)
    net.to(device)
    parallel = DDP(net, device_ids=[device.index])
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for images, labels in batches:
        optimizer.zero_grad()
        predicted = net(images.to(device))  # expect: DC750
        criterion(predicted, labels.to(device)).backward()
        optimizer.step()
    dist.destroy_process_group()
