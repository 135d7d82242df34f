import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Features(Dataset):
    def __init__(self, folder):
        self.features = torch.load(os.path.join(folder, "features.pt"))
        self.labels = torch.load(os.path.join(folder, "labels.pt"))
        self.found = torch.load(os.path.join(folder, "instances_predictions.pth"))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.features[index], self.labels[index]


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = Features("data")
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for features, labels in loader:
            (model(features.cuda()) - labels.cuda()).square().mean().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
