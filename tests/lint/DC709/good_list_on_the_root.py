import torch
import torch.distributed as dist


def collect(tensor: torch.Tensor) -> torch.Tensor | None:
    size = dist.get_world_size()
    parts = [torch.empty_like(tensor) for _ in range(size)] if dist.get_rank() == 0 else None
    dist.gather(tensor, parts, dst=0)
    return None if parts is None else torch.cat(parts)


def share(chunks: list[torch.Tensor]) -> torch.Tensor:
    mine, given = torch.empty(4), []
    if dist.get_rank() == 0:
        given = [chunk * 2 for chunk in chunks]
    dist.scatter(mine, given, src=0)
    return mine


def collect_apart(tensor: torch.Tensor) -> list[torch.Tensor] | None:
    if dist.get_rank() == 0:
        parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.gather(tensor, parts)
        return parts
    dist.gather(tensor)
    return None


if __name__ == "__main__":
    dist.init_process_group("gloo")
    collect(torch.ones(4))
    share([torch.ones(4)] * dist.get_world_size())
    collect_apart(torch.ones(4))
    dist.destroy_process_group()
