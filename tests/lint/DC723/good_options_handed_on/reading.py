import torch


def read(path, **options):
    return torch.load(path, **options)


def read_all(paths, *args):
    return [torch.load(path, *args) for path in paths]
