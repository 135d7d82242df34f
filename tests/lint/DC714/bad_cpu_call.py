import os

import torch
import torch.distributed as dist


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", init_method="env://")


def evaluate(model, loader):
    outputs = []
    for batch in loader:
        outputs.append(model(batch.cuda()).argmax(1))
    mine = torch.cat(outputs).cpu()
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine)  # expect: DC714
    return torch.cat(parts)


def main(model, loader):
    setup()
    evaluate(model, loader)
    dist.destroy_process_group()
