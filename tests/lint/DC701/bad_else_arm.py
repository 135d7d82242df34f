import torch
import torch.distributed as dist


def fetch(table: torch.Tensor) -> torch.Tensor:
    rank = dist.get_rank()
    if rank == 0:
        table.fill_(3.0)
    elif rank == 1:
        dist.broadcast(table, src=0)  # expect: DC701
    else:
        table.zero_()
    return table


def fetch_late(table: torch.Tensor) -> torch.Tensor:
    main = dist.get_rank() == 0
    if main:
        table.fill_(3.0)
    else:
        dist.broadcast(table, src=0)  # expect: DC701
    return table


if __name__ == "__main__":
    dist.init_process_group("gloo")
    fetch(torch.empty(4))
    fetch_late(torch.empty(4))
    dist.destroy_process_group()
