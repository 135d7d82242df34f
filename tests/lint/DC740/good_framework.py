"""The framework creates the group as it is created itself."""
from accelerate import Accelerator
import torch.distributed as dist


def main(model, optimizer, loader):
    accelerator = Accelerator()
    print(dist.get_rank())
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    dist.barrier()
    for batch in loader:
        accelerator.backward(model(batch))
