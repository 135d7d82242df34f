import torch
import torch.distributed as dist


def average(value: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(value, op=dist.ReduceOp.AVG)
    return value


def finish(loss: torch.Tensor, rank: int) -> None:
    if rank != 0:
        return
    final = average(loss)  # expect: DC702
    print(f"final loss {final.item():.4f}")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    finish(torch.ones(1), dist.get_rank())
    dist.destroy_process_group()
