import torch
import torch.distributed as dist


def halves(rank: int) -> dist.ProcessGroup:
    return dist.new_group([0, 1]) if rank < 2 else dist.new_group([2, 3])  # expect: DC706


if __name__ == "__main__":
    dist.init_process_group("gloo")
    mine = halves(dist.get_rank())
    dist.all_reduce(torch.ones(1), group=mine)
    dist.destroy_process_group()
