import torch
import torch.distributed as dist


def setup(gpu: str, rank: str) -> torch.Tensor:
    value = torch.ones(1)
    if gpu == "cpu":
        dist.all_reduce(value)
    if rank == "best":
        dist.barrier()
    return value


if __name__ == "__main__":
    dist.init_process_group("gloo")
    setup("cpu", "best")
    dist.destroy_process_group()
