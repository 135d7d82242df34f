"""DDP keeps whole replicas: rank 0 has all it needs."""

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(8, 8))
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "model.pt")
        print(list(model.state_dict()), len(get_model_state_dict(model)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
