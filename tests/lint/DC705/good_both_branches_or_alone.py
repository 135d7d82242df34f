"""Each branch asks for the state, or the call says that it is for this rank alone, or the helpers ask for no state."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def describe(model: torch.nn.Module, level: int) -> None:
    if level:
        describe_parts(model, level - 1)


def describe_parts(model: torch.nn.Module, level: int) -> None:
    print(type(model).__name__)
    describe(model, level)


def main() -> None:
    dist.init_process_group("gloo")
    model = FSDP(torch.nn.Linear(8, 8))
    if dist.get_rank() == 0:
        state = model.state_dict()
        torch.save(state, "model.pt")
    else:
        model.state_dict()
    if dist.get_rank() == 0:
        describe(model, 3)
    first = dist.new_group([0])
    if dist.get_rank() == 0:
        dcp.save({"step": 1}, checkpoint_id="step", process_group=first)
    options = {"no_dist": True}
    if dist.get_rank() == 0:
        dcp.save({"step": 1}, checkpoint_id="alone", **options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
