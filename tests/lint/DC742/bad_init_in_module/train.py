import torch.distributed as dist

from comm import mean


def main(model, loader):
    for batch in loader:
        print(mean(model(batch).detach().mean()).item())
    dist.destroy_process_group()
