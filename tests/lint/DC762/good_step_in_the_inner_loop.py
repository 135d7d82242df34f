import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, batches, optimizer, scaler, steps, accumulation_steps):
    for _ in range(steps):
        for _ in range(accumulation_steps):
            x, y = next(batches)
            loss = torch.nn.functional.mse_loss(model(x), y) / accumulation_steps
            scaler.scale(loss).backward()
            scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(4, 8, device="cuda")
    train(model, iter([(batch, batch)] * 16), optimizer, torch.cuda.amp.GradScaler(), 4, 4)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
