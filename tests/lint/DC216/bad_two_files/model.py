import torch


def build():
    return torch.nn.Linear(4, 4).to("cuda:0")  # expect: DC216
