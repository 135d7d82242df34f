import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


@torch.no_grad()
def evaluate(model, loader, count):
    model.eval()
    parts = []
    for batch, _ in loader:
        scores = model(batch.cuda())
        gathered = [torch.empty_like(scores) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, scores)
        parts.append(torch.stack(gathered, dim=1).flatten(0, 1))
    # the sampler repeats some at the end
    return torch.cat(parts)[:count]


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    data = TensorDataset(torch.randn(101, 8), torch.zeros(101))
    sampler = DistributedSampler(data, shuffle=False)
    loader = DataLoader(data, batch_size=1, sampler=sampler)
    evaluate(DDP(torch.nn.Linear(8, 4).cuda(), device_ids=[local_rank]), loader, len(data))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
