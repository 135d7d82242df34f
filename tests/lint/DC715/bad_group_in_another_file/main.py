import torch
import torch.distributed as dist

from groups import SECOND_HALF, make_group


def share(value: torch.Tensor) -> None:
    dist.broadcast(value, src=0, group=make_group())  # expect: DC715
    group = dist.new_group(SECOND_HALF)
    dist.broadcast(value, src=0, group=group)  # expect: DC715


if __name__ == "__main__":
    dist.init_process_group("gloo")
    share(torch.ones(1))
    dist.destroy_process_group()
