import io

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def earlier_run():
    """The bytes of a checkpoint of an earlier run."""
    torch.manual_seed(0)
    model = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model(torch.randn(16, 6)).square().mean().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    return file.getvalue()


def resume(model, optimizer, data):
    checkpoint = torch.load(io.BytesIO(data), weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if rank == 0:
        resume(model, optimizer, earlier_run())
    ddp = DistributedDataParallel(model)
    generator = torch.Generator().manual_seed(rank)
    for step in range(5):
        inputs = torch.randn(8, 6, generator=generator)
        loss = (ddp(inputs) - inputs[:, :3]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
