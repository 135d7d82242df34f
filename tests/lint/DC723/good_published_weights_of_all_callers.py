import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP



def restore(model, path=None):
    if path is not None:
        model.load_state_dict(torch.load(path))


def main(path):
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(8, 8).cuda())
    restore(model.module, "zoo/segmentation_vit.pth")
    model(torch.ones(8).cuda()).sum().backward()
    if dist.get_rank() == 0:
        torch.save({"net": model.module.state_dict()}, "last.pth")
    dist.destroy_process_group()


main("weights.pth")
