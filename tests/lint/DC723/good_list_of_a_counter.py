import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(checkpoint_path):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8).cuda()
    start = 0
    if checkpoint_path:
        training_state = torch.load(os.path.join(checkpoint_path, "training_state.pt"))
        start = training_state[0] + 1
    for epoch in range(start, 3):
        torch.save([epoch], os.path.join(checkpoint_path, "training_state.pt"))  # expect: DC720
    model = DDP(model, device_ids=[local_rank])
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
