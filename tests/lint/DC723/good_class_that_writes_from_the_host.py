"""The class that loads the state has moved all of it to the CPU before it was saved."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def _to_cpu(state):
    return {name: value.cpu() for name, value in state.items()}


class Restorer:
    def __init__(self, folder, model):
        self.path = f"{folder}/restore.pt"
        self.older = f"{folder}/older.pt"
        self.model = model

    def save(self):
        state = {"model": _to_cpu(self.model.state_dict())}
        if os.path.exists(self.path):
            os.replace(self.path, self.older)
        torch.save(state, self.path)

    def restore(self):
        self.model.load_state_dict(torch.load(self.older)["model"])


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    restorer = Restorer(os.environ["OUTPUT"], model)
    restorer.restore()
    for _ in range(10):
        model(torch.randn(4, 8, device="cuda")).sum().backward()
    if dist.get_rank() == 0:
        restorer.save()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
