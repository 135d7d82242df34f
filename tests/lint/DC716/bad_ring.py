import torch
import torch.distributed as dist


def rotate(value: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    incoming = torch.empty_like(value)
    dist.send(value, dst=(rank + 1) % size)  # expect: DC716
    dist.recv(incoming, src=(rank - 1) % size)
    return incoming


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rotate(torch.ones(1 << 20))
    dist.destroy_process_group()
