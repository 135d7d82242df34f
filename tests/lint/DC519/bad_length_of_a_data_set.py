import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Part(Dataset):
    def __init__(self, paths):
        self.paths = paths[dist.get_rank() :: dist.get_world_size()]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return torch.load(self.paths[index], weights_only=True)


def main(paths):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(4, 4).cuda())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(Part(paths), batch_size=4)
    for batch in loader:  # expect: DC519
        model(batch.cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()
