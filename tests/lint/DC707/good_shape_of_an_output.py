import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler


def train(data, net, optimizer, epochs):
    model = DDP(net)
    for epoch in range(epochs):
        for batch in DataLoader(data, sampler=DistributedSampler(data, shuffle=False)):
            output = model(batch)
            loss = output.loss
            if output.logits.shape[-1] != 10:
                continue
            loss.backward()
            worst = loss.data.clone()
            dist.all_reduce(worst, op=dist.ReduceOp.MAX)
            if torch.isnan(worst):
                break
            optimizer.step()
