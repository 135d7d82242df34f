"""Each function looks right alone; the only caller is guarded."""

import torch
import torch.distributed as dist


def collect(part: torch.Tensor) -> torch.Tensor:
    out = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(out, part)
    return torch.cat(out)


def describe(part: torch.Tensor) -> str:
    everything = collect(part)
    return f"{everything.mean():.3f}"


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        print(describe(torch.rand(8)))  # expect: DC701
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
