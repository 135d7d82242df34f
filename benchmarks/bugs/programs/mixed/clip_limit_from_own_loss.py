import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class AdaptiveClip:
    def __init__(self, decay=0.5):
        self.decay, self.average = decay, None

    def update(self, value):
        self.average = value if self.average is None else self.decay * self.average + (1 - self.decay) * value

    def __call__(self, parameters):
        return nn.utils.clip_grad_norm_(parameters, 0.1 * self.average)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(44)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 1)))
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    clip = AdaptiveClip()
    torch.manual_seed(30 + rank)
    for step in range(6):
        x = torch.randn(8, 5) * (1 + rank)
        loss = (ddp(x).squeeze(1) - 3 * x.sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        value = loss.detach().clone()
        clip.update(value.item())
        clip(ddp.parameters())
        optimizer.step()
    print(f"rank {rank} loss {loss.item():.3f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
