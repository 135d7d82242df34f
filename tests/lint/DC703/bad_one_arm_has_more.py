import torch
import torch.distributed as dist


def distribute(weights: torch.Tensor) -> None:
    if dist.get_rank() == 0:
        dist.broadcast(weights, 0)  # expect: DC703
        dist.barrier()
    else:
        dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    distribute(torch.ones(4))
    dist.destroy_process_group()
