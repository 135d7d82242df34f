import torch.distributed as dist


def make() -> object:
    return dist.new_group(backend="gloo")


def build(path: str) -> object:
    group = None
    if dist.get_rank() != 0:
        group = make()
    print(path)
    if dist.get_rank() == 0:
        group = make()
    return group
