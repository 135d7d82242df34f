import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        model.require_backward_grad_sync == ((i + 1) % steps == 0)  # a comparison
        loss = torch.nn.functional.mse_loss(model(x), y) / steps
        loss.backward()  # expect: DC762
        if (i + 1) % steps == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(4, 8, device="cuda")
    train(model, [(batch, batch)] * 16, optimizer, 4)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
