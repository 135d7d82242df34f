import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(folder):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = os.path.join(folder, "optimizer.pt")
    if os.path.isfile(path):
        optimizer.load_state_dict(torch.load(path))  # expect: DC723
    model = DDP(model, device_ids=[local_rank])
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    if dist.get_rank() == 0:
        torch.save(optimizer.state_dict(), os.path.join(folder, "optimizer.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
