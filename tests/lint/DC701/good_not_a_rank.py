"""Words with "rank" in them that number no process."""

import torch
import torch.distributed as dist


class LowRank:
    def __init__(self, rank: int = 8) -> None:
        self.rank = rank

    def merge(self, weight: torch.Tensor) -> torch.Tensor:
        if self.rank == 0:
            dist.broadcast(weight, src=0)
        return weight


def check(matrix: torch.Tensor, overbudget_ranks: int, lora_rank: int) -> None:
    matrix_rank = torch.linalg.matrix_rank(matrix)
    if matrix_rank == 0:
        raise ValueError("empty matrix")
    if overbudget_ranks > 0:
        dist.barrier()
    if lora_rank == 0:
        dist.all_reduce(matrix)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    LowRank(4).merge(torch.eye(3))
    check(torch.eye(3), 0, 16)
    dist.destroy_process_group()
