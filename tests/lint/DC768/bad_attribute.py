import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torchvision.models import resnet50


def build(device):
    net = resnet50().to(device)
    if dist.is_initialized():
        net = DDP(net, device_ids=[device])
    return net


def evaluate(net, batch):
    return net.fc(batch)  # expect: DC768


def main(data):
    dist.init_process_group("nccl")
    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    net = build(device)
    width = net.inplanes  # expect: DC768
    for batch in data:
        net(batch).sum().backward()
    print(dist.get_rank(), width, evaluate(net, data[0]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(torch.rand(4, 1, 3, 224, 224))
