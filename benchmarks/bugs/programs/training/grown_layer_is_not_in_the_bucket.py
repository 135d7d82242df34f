import torch
import torch.distributed as dist
from torch import nn


class GrowingNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(23)
        self.blocks = nn.ModuleList([nn.Linear(6, 6)])
        self.output = nn.Linear(6, 1)

    def grow(self):
        torch.manual_seed(100 + len(self.blocks))
        self.blocks.append(nn.Linear(6, 6))
        return list(self.blocks[-1].parameters())

    def forward(self, inputs):
        for block in self.blocks:
            inputs = torch.relu(block(inputs))
        return self.output(inputs)


class Averager:
    def __init__(self, parameters):
        self.parameters = list(parameters)

    def __call__(self):
        for parameter in self.parameters:
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = GrowingNetwork()
    average = Averager(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for step in range(8):
        if step == 4:
            added = model.grow()
            optimizer.add_param_group({"params": added})
        inputs = torch.randn(8, 6, generator=generator)
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        average()
        optimizer.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
