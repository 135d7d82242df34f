import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel


def show(model: FullyShardedDataParallel) -> None:
    if dist.get_rank() == 0:
        with FullyShardedDataParallel.summon_full_params(model, writeback=False):  # expect: DC705
            print(sum(parameter.norm() for parameter in model.parameters()))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    show(FullyShardedDataParallel(torch.nn.Linear(4, 4)))
    dist.destroy_process_group()
