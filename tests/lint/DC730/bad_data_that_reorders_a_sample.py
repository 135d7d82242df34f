import random

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Sentences(Dataset):
    def __init__(self, texts):
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        words = list(self.texts[index])
        random.shuffle(words)
        return torch.tensor(self.mixed(words))

    def mixed(self, words):
        random.shuffle(words)
        return words


def main(texts):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    data = Sentences(texts)
    sampler = DistributedSampler(data)  # expect: DC730
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DDP(torch.nn.Linear(4, 4).cuda())
    for _ in range(10):
        for batch in loader:
            model(batch.float().cuda()).sum().backward()
    dist.destroy_process_group()
