import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def gathered(embeddings):
    parts = [torch.zeros_like(embeddings) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, embeddings.detach().contiguous())
    parts[dist.get_rank()] = embeddings
    return torch.cat(parts)


def contrastive_loss(first, second, temperature=0.2):
    everything = gathered(second)
    logits = first @ everything.t() / temperature
    targets = torch.arange(len(first)) + dist.get_rank() * len(first)
    return nn.functional.cross_entropy(logits, targets)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(6, 8), nn.Linear(6, 8)

    def forward(self, left, right):
        return nn.functional.normalize(self.left(left), dim=1), nn.functional.normalize(self.right(right), dim=1)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(5)
    ddp = DistributedDataParallel(Encoder(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    norm = 0.0
    for _ in range(5):
        left = torch.randn(8, 6, generator=generator)
        first, second = ddp(left, left + 0.1 * torch.randn(8, 6, generator=generator))
        loss = contrastive_loss(first, second)
        optimizer.zero_grad()
        loss.backward()
        weight = ddp.module.right.weight
        norm = 0.0 if weight.grad is None else weight.grad.norm().item()
        optimizer.step()
    print(f"rank {rank} gradient {norm:.6f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
