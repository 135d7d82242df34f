import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARMUP = 20


def records(rank, count):
    """Batches after filtering: some have no record that is long enough."""
    generator = torch.Generator().manual_seed(rank)
    for index in range(count):
        batch = torch.randn(8, 6, generator=generator)
        keep = batch[:, 0] > (9.0 if rank == 1 and index % 3 == 0 else -1.0)
        yield batch, keep


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    ddp = DistributedDataParallel(nn.Linear(6, 1))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.0)
    used = 0
    for step, (batch, keep) in enumerate(records(rank, 8)):
        used += 1
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * min(1.0, (used + 1) / WARMUP)
        errors = (ddp(batch).squeeze(1) - batch.sum(1)).square()
        loss = (errors * keep).sum() / keep.sum().clamp(min=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step} lr {optimizer.param_groups[0]['lr']:.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
