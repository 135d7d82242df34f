"""The function is defined in the branch for rank 0's text; who calls it is another matter."""

import torch
import torch.distributed as dist


def make_hook(rank: int, size: int):
    def reduce(bucket: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(bucket)
        return bucket / size

    if rank == 0:
        print("hook installed", reduce.__name__)
    return reduce


def main() -> None:
    dist.init_process_group("gloo")
    hook = make_hook(dist.get_rank(), dist.get_world_size())
    hook(torch.ones(2))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
