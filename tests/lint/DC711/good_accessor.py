"""What an accessor returns is the tensor, not a copy."""
import torch.distributed as dist


class Statistics:
    def __init__(self, values):
        self.values = values

    def tensor(self, name):
        return self.values[name]

    def synchronize(self, names):
        for name in names:
            dist.all_reduce(self.values.get(name))
            dist.all_reduce(getattr(self, name))
            dist.all_reduce(self.tensor(name))
            dist.all_reduce(next(iter(self.values.values())))
