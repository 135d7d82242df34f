import torch


def write_checkpoint(module, path):
    weights = {name: tensor.cpu() for name, tensor in module.state_dict().items()}
    torch.save(weights, path)  # expect: DC720=warning
