import os
from copy import deepcopy

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    replicas = dist.new_group(range(dist.get_world_size()))
    model = DDP(torch.nn.Linear(16, 4).cuda(), device_ids=[local_rank], process_group=replicas)
    average = deepcopy(model)  # expect: DC602
    average.eval()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
