import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def rounded(weight, generator):
    """Round float32 to bfloat16 up or down, by the distance to both."""
    bits = weight.contiguous().view(torch.int32)
    noise = torch.randint(0, 1 << 16, bits.shape, dtype=torch.int32, generator=generator)
    return ((bits + noise) & -65536).view(torch.float32).bfloat16()


class MasterWeights:
    """Steps float32 copies of bfloat16 parameters, and rounds them back."""

    def __init__(self, parameters, make, seed):
        self.parameters = list(parameters)
        self.masters = [each.detach().float().clone() for each in self.parameters]
        self.optimizer = make(self.masters)
        self.generator = torch.Generator().manual_seed(seed)

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        for parameter, master in zip(self.parameters, self.masters):
            master.grad = parameter.grad.float()
        self.optimizer.step()
        for parameter, master in zip(self.parameters, self.masters):
            parameter.copy_(rounded(master, self.generator))


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


@torch.no_grad()
def gap_between_ranks(model):
    gap = 0.0
    for parameter in model.parameters():
        low, high = parameter.float(), parameter.float()
        dist.all_reduce(low, op=dist.ReduceOp.MIN)
        dist.all_reduce(high, op=dist.ReduceOp.MAX)
        gap = max(gap, (high - low).max().item())
    return gap


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(args.seed + rank)
    ddp = DDP(Net(16).bfloat16())
    optimizer = MasterWeights(
        ddp.parameters(), lambda masters: torch.optim.AdamW(masters, lr=args.lr), seed=args.seed + rank
    )
    for _ in range(args.steps):
        x = torch.randn(8, 16).bfloat16()
        loss = F.mse_loss(ddp(x), x.flip(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"replicas differ by {gap_between_ranks(ddp.module):.6f}")
    del ddp, optimizer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
