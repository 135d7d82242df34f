import os

import torch
import torch.distributed as dist


class Trainer:
    """No module: what it writes is a state that it chose."""

    def __init__(self, local_rank: int) -> None:
        self.model = torch.nn.parallel.DistributedDataParallel(
            torch.nn.Linear(16, 4).to(local_rank), device_ids=[local_rank]
        )

    def state(self) -> dict:
        return {"model": self.model.module.state_dict()}

    def save(self, path: str) -> None:
        if dist.get_rank() == 0:
            torch.save(self.state(), path)


if __name__ == "__main__":
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    Trainer(local_rank).save("model.pt")
    dist.destroy_process_group()
