import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, model, snapshot_path):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.model = model.to(self.local_rank)
        self.start = 0
        if os.path.exists(snapshot_path):
            self._load_snapshot(snapshot_path)
        self.model = DDP(self.model, device_ids=[self.local_rank])

    def _load_snapshot(self, path):
        snapshot = torch.load(path, weights_only=False)  # expect: DC723
        self.model.load_state_dict(snapshot["MODEL_STATE"])
        self.start = snapshot["EPOCHS_RUN"]

    def run(self):
        self.model(torch.randn(4, 8, device=self.local_rank)).sum().backward()


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    Trainer(torch.nn.Linear(8, 8), "snapshot.pt").run()
    dist.destroy_process_group()
