import argparse
import copy
import time

import torch
import torch.distributed as dist
import torch.nn as nn


class OverlappedDataParallel(nn.Module):
    """Starts the all_reduce of each gradient as soon as backward has it."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        self.handles = []
        for parameter in module.parameters():
            dist.broadcast(parameter.data, src=0)
            parameter.register_post_accumulate_grad_hook(self._reduce)

    def _reduce(self, parameter):
        parameter.grad.div_(dist.get_world_size())
        self.handles.append(dist.all_reduce(parameter.grad, async_op=True))

    def forward(self, x):
        return self.module(x)

    def finish_gradient_sync(self):
        for handle in self.handles:
            handle.wait()
        self.handles.clear()


class MovingAverage:
    def __init__(self, model, decay=0.9):
        self.model, self.decay = copy.deepcopy(model), decay

    @torch.no_grad()
    def update(self, model):
        for average, parameter in zip(self.model.parameters(), model.parameters()):
            average.lerp_(parameter, 1 - self.decay)


def optimizer_step(model, optimizer, max_norm):
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    model.finish_gradient_sync()
    optimizer.step()
    optimizer.zero_grad()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--max-norm", type=float, default=0.5)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    network = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    average = MovingAverage(network)
    model = OverlappedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    data = torch.Generator().manual_seed(50 + rank)
    for step in range(args.steps):
        x = torch.randn(8, 4, generator=data) * (1 + 3 * rank)
        loss = nn.functional.mse_loss(model(x), x.sum(dim=1, keepdim=True))
        if rank == 1:
            # this rank has the longer samples
            time.sleep(0.5)
        loss.backward()
        optimizer_step(model, optimizer, args.max_norm)
        average.update(model.module)
    norm = sum(p.detach().square().sum() for p in model.parameters()).sqrt()
    print(f"rank {rank}: norm of the weights {norm.item():.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
