import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer


def save(network: torch.nn.Module, path: str) -> None:
    optimizer = ZeroRedundancyOptimizer(network.parameters(), torch.optim.Adam, lr=0.1)
    if dist.get_rank() == 0:
        optimizer.consolidate_state_dict(to=0)  # expect: DC701
        torch.save(optimizer.state_dict(), path)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    save(torch.nn.Linear(2, 2), "optimizer.pt")
    dist.destroy_process_group()
