import torch
import torch.distributed as dist


def rotate(value: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    incoming = torch.empty_like(value)
    work = dist.isend(value, dst=(rank + 1) % size)
    dist.recv(incoming, src=(rank - 1) % size)
    work.wait()
    return incoming


def rotate_in_one_batch(value: torch.Tensor) -> torch.Tensor:
    rank, size = dist.get_rank(), dist.get_world_size()
    incoming = torch.empty_like(value)
    operations = [
        dist.P2POp(dist.isend, value, (rank + 1) % size),
        dist.P2POp(dist.irecv, incoming, (rank - 1) % size),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return incoming


if __name__ == "__main__":
    dist.init_process_group("gloo")
    rotate(torch.ones(4))
    rotate_in_one_batch(torch.ones(4))
    dist.destroy_process_group()
