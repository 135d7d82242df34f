"""The state is asked for two calls deeper; asked for twice under one test, it is reported once."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def state_of(network: torch.nn.Module) -> dict:
    return network.state_dict()  # expect: DC705


def save(model: torch.nn.Module, path: str) -> None:
    if dist.get_rank() == 0:
        print("saves", path)
    torch.save(state_of(model), path)


def main() -> None:
    dist.init_process_group("gloo")
    model = FSDP(torch.nn.Linear(8, 8))
    if dist.get_rank() == 0:
        save(model, "model.pt")
    if dist.get_rank() == 0:
        state = model.state_dict()  # expect: DC705
        print(state.keys(), len(model.state_dict()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
