import argparse
import copy

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def is_main():
    return dist.get_rank() == 0


class ModelAverage:
    """Keeps a moving average of the weights, sharded as they are."""

    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for average, weight in zip(self.model.parameters(), model.parameters()):
            average.to_local().lerp_(weight.to_local(), 1 - self.decay)


def build_model(width):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


def shard(model, mesh):
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(model, average, optimizer, args):
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(args.steps):
        x = torch.randn(16, args.width, generator=generator)
        loss = F.mse_loss(model(x), x.flip(1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update(model)
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--decay", type=float, default=0.5)
    parser.add_argument("--lr", type=float, default=1e-2)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    net = build_model(args.width)
    start = [weight.detach().clone() for weight in net.parameters()]
    average = ModelAverage(build_model(args.width), args.decay)
    average.model.load_state_dict(net.state_dict())
    model = shard(net, mesh)
    shard(average.model, mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    train(model, average, optimizer, args)
    whole = [weight.full_tensor() for weight in average.model.parameters()]
    follows = all((now != then).all().item() for now, then in zip(whole, start))
    print(f"average follows: {follows}")
    del model, optimizer, average
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
