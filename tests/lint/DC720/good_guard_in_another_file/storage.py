import torch


def dump(module, path):
    torch.save(module.state_dict(), path)
