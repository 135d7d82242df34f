import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class SampleWeightedAverage:
    """A mean of the weights, in which an update with more samples counts more."""

    def __init__(self, model):
        self.model, self.samples = copy.deepcopy(model), 0.0

    @torch.no_grad()
    def update(self, model, samples):
        samples = torch.tensor(float(samples))
        dist.all_reduce(samples)
        self.samples += samples.item()
        weight = samples.item() / self.samples
        for mean, value in zip(self.model.parameters(), model.parameters()):
            mean.lerp_(value, weight)

    def continue_from(self, model):
        model.load_state_dict(self.model.state_dict())


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    ddp = DistributedDataParallel(model)
    average = SampleWeightedAverage(model)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(rank)
    for step in range(8):
        count = 4 + int(torch.randint(8, (), generator=generator))
        inputs = torch.randn(count, 4, generator=generator)
        loss = (ddp(inputs) - inputs.norm(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model, count)
        if step % 3 == 2:
            average.continue_from(model)
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
