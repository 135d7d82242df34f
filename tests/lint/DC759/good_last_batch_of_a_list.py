"""Within the condition of the step, the last batch is outside of no_sync."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(together: int = 4) -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept: list[torch.Tensor] = []
    for step in range(20):
        kept.append(torch.randn(4, 8))
        if step % together == 0:
            with model.no_sync():
                for batch in kept[:-1]:
                    model(batch).mean().backward()
            model(kept[-1]).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            kept.clear()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
