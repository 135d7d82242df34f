"""Nothing in the branch looks like a collective: it stands in what the branch calls."""

import torch
import torch.distributed as dist


def mean_over_ranks(value: torch.Tensor) -> torch.Tensor:
    value = value.clone()
    dist.all_reduce(value)
    return value / dist.get_world_size()


def train_step(step: int) -> torch.Tensor:
    loss = torch.rand(1)
    shared = mean_over_ranks(loss)
    if dist.get_rank() == 0 and step % 10 == 0:
        print("accuracy", mean_over_ranks(torch.rand(1)))  # expect: DC701
    return shared


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for number in range(20):
        train_step(number)
    dist.destroy_process_group()
