"""rank0_only keeps the result on rank 0; all ranks have to ask for it."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullStateDictConfig, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


class Saver:
    def __init__(self, network: torch.nn.Module) -> None:
        self.model = FSDP(network)

    def save(self, path: str) -> None:
        config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
        with FSDP.state_dict_type(self.model, StateDictType.FULL_STATE_DICT, config):
            if dist.get_rank() == 0:
                torch.save(self.model.state_dict(), path)  # expect: DC705


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Saver(torch.nn.Linear(8, 8)).save("model.pt")
    dist.destroy_process_group()
