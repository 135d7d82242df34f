"""Only the scheduler's state is asked for on rank 0; the model's came from all ranks."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main() -> None:
    dist.init_process_group("gloo")
    model = FSDP(torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lr_scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    sampler_state = {"epoch": 3}
    weights = model.state_dict()
    if dist.get_rank() == 0:
        torch.save({"model": weights, "scheduler": lr_scheduler.state_dict(), **sampler_state}, "last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
