import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def fine_tune(net, batches, device, epochs):
    dist.init_process_group("nccl", device_id=device)
    for parameter in net.features.parameters():
        parameter.requires_grad = False
    model = DDP(net.to(device), device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        if epoch == epochs // 2:
            for parameter in net.features.parameters():
                parameter.requires_grad = True  # expect: DC751
        for batch in batches:
            optimizer.zero_grad()
            model(batch).mean().backward()
            optimizer.step()
    dist.destroy_process_group()
