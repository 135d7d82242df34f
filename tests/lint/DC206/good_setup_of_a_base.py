"""The setup is that of a base from another library, which may bind the GPU."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from trainer_library.engine import Base


class Engine(Base):
    def run(self):
        dist.init_process_group(backend="nccl")
        self.setup_distributed()
        model = DistributedDataParallel(torch.nn.Linear(4, 4).to("cuda"))
        model(torch.ones(1, 4, device="cuda")).sum().backward()
        dist.destroy_process_group()


if __name__ == "__main__":
    Engine().run()
