import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(resume="last.pt"):
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29512", rank=0, world_size=1)
    model = torch.nn.Linear(8, 8).cuda()
    checkpoint = torch.load(resume)
    model.load_state_dict(checkpoint["model"])
    model = DDP(model, device_ids=[local_rank])
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
