import copy
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(16, 16).cuda(), device_ids=[local_rank])
    average = copy.deepcopy(model.module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        x = torch.randn(8, 16, device="cuda")
        with torch.no_grad():
            target = average(x)
        anchor = model.module(x).detach()
        loss = (model(x) - target).square().mean() + (model(x) - anchor).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for slow, fast in zip(average.parameters(), model.module.parameters()):
            slow.data.lerp_(fast.data, 0.01)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
