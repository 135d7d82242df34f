"""The context that made the parameters whole has ended."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    model = FSDP(torch.nn.Linear(2, 2), device_id=local_rank)
    with FSDP.summon_full_params(model, writeback=False):
        total = sum(one.sum() for one in model.parameters())
    if dist.get_rank() == 0:
        print(total)
        torch.save(model.module.state_dict(), "model.pt")  # expect: DC705
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
