import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


@torch.no_grad()
def write_scores(model, loader, names, folder):
    model.eval()
    index = dist.get_rank()
    for batch, _ in loader:
        # the sampler repeats some at the end
        if index >= len(names):
            continue
        torch.save(model(batch.cuda()), os.path.join(folder, names[index]))
        index += dist.get_world_size()


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(101, 8), torch.zeros(101))
    sampler = DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, batch_size=1, sampler=sampler)
    names = [f"{number}.pt" for number in range(len(data))]
    write_scores(DDP(torch.nn.Linear(8, 4).cuda(), device_ids=[local_rank]), loader, names, "scores")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
