"""The module inside of FSDP is whole: by a context around the caller, one of the project, or one on a stack."""

import contextlib

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def save(model):
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), "model.pt")


@contextlib.contextmanager
def whole(model):
    with FSDP.summon_full_params(model, writeback=False):
        yield


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_node_local_rank()
    torch.cuda.set_device(local_rank)
    model = FSDP(torch.nn.Linear(2, 2), device_id=local_rank)
    with FSDP.summon_full_params(model, writeback=False):
        save(model)
    with whole(model):
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), "again.pt")
    with contextlib.ExitStack() as stack:
        stack.enter_context(FSDP.summon_full_params(model, writeback=False))
        if dist.get_rank() == 0:
            torch.save(model.module.state_dict(), "third.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
