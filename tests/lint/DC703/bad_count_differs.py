import torch
import torch.distributed as dist


def totals(loss: torch.Tensor, hits: torch.Tensor) -> None:
    is_main = dist.get_rank() == 0
    if is_main:
        dist.reduce(loss, dst=0)
        dist.reduce(hits, dst=0)  # expect: DC703
        print(loss, hits)
    else:
        dist.reduce(loss, dst=0)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    totals(torch.ones(1), torch.ones(1))
    dist.destroy_process_group()
