import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from tqdm import tqdm


def train(model, optimizer, loader, total):
    rank = dist.get_rank()
    bar = tqdm(total=total, disable=rank != 0)
    while bar.n < bar.total:
        for x in loader:
            if bar.n >= bar.total:
                break
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
            if rank > 0:
                bar.update(1)
                continue
            print(bar.n)
            bar.update(1)


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, [torch.randn(4, 8, device="cuda")] * 16, 100)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
