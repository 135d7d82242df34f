import torch
import torch.distributed as dist


def agree(value: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() == 0:
        dist.broadcast(value, src=0)
        return value
    dist.broadcast(value, src=0)
    dist.barrier()  # expect: DC703
    return value


if __name__ == "__main__":
    dist.init_process_group("gloo")
    agree(torch.ones(1))
    dist.destroy_process_group()
