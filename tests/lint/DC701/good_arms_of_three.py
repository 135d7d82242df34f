import torch
import torch.distributed as dist


def exchange(value: torch.Tensor) -> None:
    rank = dist.get_rank()
    if rank == 0:
        value += 1
        dist.all_reduce(value)
    elif rank == 1:
        dist.all_reduce(value)
        value -= 1
    else:
        dist.all_reduce(value)


def pair_apart(value: torch.Tensor) -> None:
    if dist.get_rank() == 0:
        dist.broadcast(value, src=0)
    print("in between")
    if dist.get_rank() != 0:
        dist.broadcast(value, src=0)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    exchange(torch.ones(1))
    pair_apart(torch.ones(1))
    dist.destroy_process_group()
