import torch
import torch.distributed as dist


def exchange(value: torch.Tensor) -> None:
    rank = dist.get_rank()
    low, high = dist.new_group([0, 1]), dist.new_group([2, 3])
    if rank < 2:
        dist.all_reduce(value, group=low)
        dist.all_gather_object([None, None], rank, group=low)
    else:
        dist.broadcast(value, group_src=0, group=high)
    if rank == 0:
        dist.send(value, dst=1)
        dist.barrier()
    elif rank == 1:
        dist.recv(value, src=0)
        dist.barrier()
    else:
        dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    exchange(torch.ones(1))
    dist.destroy_process_group()
