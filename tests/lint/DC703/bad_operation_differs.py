import torch
import torch.distributed as dist


def share(value: torch.Tensor) -> list:
    parts = [torch.zeros_like(value) for _ in range(dist.get_world_size())]
    if dist.get_rank() != 0:
        dist.gather(value, dst=0)  # expect: DC703
    else:
        dist.all_gather(parts, value)
    return parts


if __name__ == "__main__":
    dist.init_process_group("gloo")
    share(torch.ones(1))
    dist.destroy_process_group()
