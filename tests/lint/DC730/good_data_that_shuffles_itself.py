import numpy as np
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Clips(Dataset):
    def __init__(self, files):
        self.files = files

    def reset(self):
        np.random.shuffle(self.files)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return torch.load(self.files[index], weights_only=True)


def main(files, epochs):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4).cuda())
    clips = Clips(files)
    sampler = DistributedSampler(clips)
    loader = DataLoader(clips, sampler=sampler, batch_size=8)
    for epoch in range(epochs):
        clips.reset()
        for batch in loader:
            model(batch.cuda()).sum().backward()
        print(dist.get_rank(), epoch)
    dist.destroy_process_group()
