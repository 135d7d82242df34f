import os

import torch
import torch.distributed as dist
from loop import optimise
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = FSDP(torch.nn.Linear(16, 4), device_id=local_rank)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(10):
        optimise(model, optimizer, torch.randn(8, 16, device="cuda"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
