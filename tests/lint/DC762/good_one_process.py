import os

import torch
import torch.distributed as dist


def train(model, loader, optimizer, steps):
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(model(x), y) / steps
        loss.backward()
        if (i + 1) % steps == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(4, 8, device="cuda")
    train(model, [(batch, batch)] * 16, optimizer, 4)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
