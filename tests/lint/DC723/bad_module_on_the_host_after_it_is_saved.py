import os
import os.path as osp

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(folder):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    path = osp.join(folder, "model_final.pth")
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), path)
    model.cpu()
    dist.barrier()
    evaluate(folder)
    dist.destroy_process_group()


def evaluate(folder):
    path = osp.join(folder, "model_final.pth")
    model = torch.nn.Linear(8, 8)
    model.load_state_dict(torch.load(path))  # expect: DC723
    model.cuda()


if __name__ == "__main__":
    train("results")
