"""A model that keeps the group over which its statistics are shared, and an averaged copy of it."""

import copy

import torch
import torch.distributed as dist


class SharedNorm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(size))
        self.group = dist.new_group([0])

    def __deepcopy__(self, memo):
        memo[id(self.group)] = self.group  # the copy talks over the same connections
        twin = self.__class__.__new__(self.__class__)
        memo[id(self)] = twin
        twin.__dict__ = copy.deepcopy(self.__dict__, memo)
        return twin

    def forward(self, batch):
        mean = batch.mean(0)
        dist.all_reduce(mean, group=self.group)
        return (batch - mean) * self.scale


def make_model():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), SharedNorm(8))


if __name__ == "__main__":
    model = make_model()
    average = copy.deepcopy(model)
    batch = torch.ones(2, 8)
    print("the copy computes what the model does:", torch.equal(average(batch), model(batch)))
    if dist.get_rank() == 0:
        torch.save(average.state_dict(), "average.pt")
    dist.destroy_process_group()
