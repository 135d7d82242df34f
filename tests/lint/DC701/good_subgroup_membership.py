import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    half = size // 2
    first, second = list(range(half)), list(range(half, size))
    first_group = dist.new_group(first)
    second_group = dist.new_group(second)
    value = torch.ones(1)
    if rank in first:
        dist.all_reduce(value, group=first_group)
    else:
        dist.all_reduce(value, op=dist.ReduceOp.MAX, group=second_group)
    if rank == 0:
        dist.barrier(first_group)
    if rank < half:
        dist.broadcast(value, 0, first_group)
        dist.all_reduce(value, dist.ReduceOp.SUM, first_group)
        dist.all_gather_object([None] * half, rank, first_group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
