import functools
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def master_only(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if dist.get_rank() == 0:
            return function(*args, **kwargs)
        return None

    return wrapper


@master_only
def save_network(network, path):
    torch.save(network.state_dict(), path)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    save_network(model.module, "net_latest.pth")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
