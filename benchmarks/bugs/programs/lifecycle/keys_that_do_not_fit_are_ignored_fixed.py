import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def pretrained():
    """What a download would give: names without the prefix of a wrapper."""
    source = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2))
    return {name: torch.full_like(value, 0.1) for name, value in source.state_dict().items()}


def load_pretrained(ddp):
    parcel = [None]
    if dist.get_rank() == 0:
        parcel[0] = pretrained()
        ddp.module.load_state_dict(parcel[0])
    dist.broadcast_object_list(parcel, src=0)
    if dist.get_rank() != 0:
        ddp.module.load_state_dict(parcel[0])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(14)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)))
    load_pretrained(ddp)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(80 + rank)
    for _ in range(5):
        x = torch.randn(10, 5)
        loss = nn.functional.cross_entropy(ddp(x), (x[:, 0] > x[:, 1]).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"rank {rank} loss {loss.item():.3f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
