import torch.distributed as dist


class Meter:
    def __init__(self, device):
        self.device = device
        self.total = None

    def add(self, value):
        self.total = value if self.total is None else self.total + value

    def synchronize(self):
        dist.all_reduce(self.total.float().clone())  # expect: DC711
        return self.total
