import torch.distributed as dist


class Layout:
    def __init__(self, size: int) -> None:
        self.size = size
        self.group = dist.new_group(list(range(size)))
