import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    net = torch.nn.Linear(16, 4).cuda()
    ddp = DDP(net, device_ids=[local_rank])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        ddp(torch.randn(8, 16, device="cuda")).square().mean().backward()
        optimizer.step()
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
