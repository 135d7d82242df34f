import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


@torch.no_grad()
def extract(model, folder, files):
    rank, world_size = dist.get_rank(), dist.get_world_size()
    for file in files[rank::world_size]:
        torch.save(model(torch.load(file, map_location="cpu").cuda()), os.path.join(folder, os.path.basename(file)))
    for index in range(rank, len(files), world_size):
        torch.save(torch.zeros(1), f"{folder}/{index:06d}.pt")
    data = TensorDataset(torch.randn(64, 8), torch.arange(64))
    for batch, numbers in DataLoader(data, batch_size=1, sampler=DistributedSampler(data, shuffle=False)):
        torch.save(model(batch.cuda()).cpu(), os.path.join(folder, f"{numbers.item()}.pt"))


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    extract(torch.nn.Linear(8, 8).cuda(), "features", [f"in/{number}.pt" for number in range(64)])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
