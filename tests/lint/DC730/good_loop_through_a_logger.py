import os
import time

import torch
import torch.distributed as dist
from timm.utils import NativeScaler
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, TensorDataset


class Meters:
    def log_every(self, iterable, every, header=None):
        started = time.time()
        for number, item in enumerate(iterable):
            yield item
            if number % every == 0:
                print(header, number, time.time() - started)


def train_one_epoch(model, loader, optimizer, epoch, loss_scaler):
    model.train()
    meters = Meters()
    header = f"Epoch {epoch}"
    for x, y in meters.log_every(loader, 10, header):
        with torch.cuda.amp.autocast():
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss_scaler(loss, optimizer, parameters=model.parameters())


def main(distributed):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(64, 8), torch.zeros(64, dtype=torch.long))
    if distributed:
        sampler = DistributedSampler(data, shuffle=True)
    else:
        sampler = RandomSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DDP(torch.nn.Linear(8, 2).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_scaler = NativeScaler()
    for epoch in range(3):
        if distributed:
            loader.sampler.set_epoch(epoch)
        train_one_epoch(model, loader, optimizer, epoch, loss_scaler)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(True)
