"""Features that are gathered for an evaluation, or as constants on purpose."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def gathered(features: torch.Tensor) -> torch.Tensor:
    parts = [torch.empty_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features)
    return torch.cat(parts)


@torch.no_grad()
def constants(features: torch.Tensor) -> torch.Tensor:
    parts = [torch.empty_like(features) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, features)
    return torch.cat(parts)


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(8, 8))
    for _ in range(10):
        features = model(torch.randn(4, 8))
        others = constants(features)
        detached = gathered(features.detach())
        (features @ others.t() + features @ detached.t()).mean().backward()
    with torch.no_grad():
        print(gathered(model(torch.randn(4, 8))).shape)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
