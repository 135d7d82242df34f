"""Without buffers to broadcast, a forward pass without gradients talks to nobody."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


@torch.no_grad()
def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(8, 2), broadcast_buffers=False)
    if dist.get_rank() == 0:
        print(model(torch.rand(4, 8)).mean())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
