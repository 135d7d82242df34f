import torch
import torch.distributed as dist


def share(table: torch.Tensor | None, src: int) -> torch.Tensor:
    if dist.get_rank() == src:
        assert table is not None
        data = table
    else:
        data = torch.empty(4)
    dist.broadcast(data, src)
    names = ["a", "b"] if dist.get_rank() == src else [None, None]
    dist.broadcast_object_list(names, src=src)
    return data


if __name__ == "__main__":
    dist.init_process_group("gloo")
    share(torch.ones(4), 0)
    dist.destroy_process_group()
