import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def new_model():
    torch.manual_seed(17)
    return nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2))


def restored(weights):
    model = new_model()
    model.load_state_dict(weights)
    return model


def prepare(resume):
    weights = new_model().state_dict()
    if resume:
        model = restored(weights)
        return model
    return DistributedDataParallel(new_model())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--resume", action="store_true", default=True)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = prepare(options.resume)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    for step in range(5):
        inputs = torch.randn(8, 10, generator=generator)
        loss = nn.functional.cross_entropy(model(inputs), inputs[:, :2].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        if rank == 0:
            print(f"step {step} loss {mean.item() / dist.get_world_size():.4f}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
