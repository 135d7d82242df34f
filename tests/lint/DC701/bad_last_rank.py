import torch
import torch.distributed as dist


def share_result(result: torch.Tensor) -> torch.Tensor:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank == world_size - 1:
        dist.broadcast(result, src=world_size - 1)  # expect: DC701
    return result


if __name__ == "__main__":
    dist.init_process_group("gloo")
    share_result(torch.zeros(3))
    dist.destroy_process_group()
