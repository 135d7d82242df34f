import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def train(data, net, optimizer, epochs):
    model = DDP(net)
    for epoch in range(epochs):
        total = 0.0
        for batch in DataLoader(data, sampler=DistributedSampler(data, shuffle=False)):
            output = model(batch)
            if torch.isnan(output.loss):
                continue  # expect: DC707
            output.loss.backward()
            optimizer.step()
            total += output.loss.data.float()
            if torch.isnan(total.data):
                break  # expect: DC707
        print(dist.get_rank(), total)
