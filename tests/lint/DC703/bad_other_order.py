import torch
import torch.distributed as dist


def exchange(loss: torch.Tensor, names: list) -> None:
    rank = dist.get_rank()
    if rank == 0:
        dist.all_reduce(loss)  # expect: DC703
        dist.broadcast_object_list(names, src=0)
    else:
        dist.broadcast_object_list(names, src=0)
        dist.all_reduce(loss)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    exchange(torch.ones(1), [None])
    dist.destroy_process_group()
