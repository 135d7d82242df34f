"""What is gathered is shown, and not trained."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(8, 8))
    for _ in range(10):
        loss = model(torch.randn(4, 8)).mean()
        loss.backward()
        values = [torch.empty_like(loss) for _ in range(dist.get_world_size())]
        dist.all_gather(values, loss)
        mean = torch.stack(values).mean().item()
        if dist.get_rank() == 0:
            print(mean)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
