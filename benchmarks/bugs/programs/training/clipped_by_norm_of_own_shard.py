import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


class ShardedSGD:
    """Each rank keeps and updates one part of the flat parameters."""

    def __init__(self, model, lr, max_norm):
        self.model, self.lr, self.max_norm = model, lr, max_norm
        self.world_size, self.rank = dist.get_world_size(), dist.get_rank()

    def _clip(self, shard):
        total = shard.square().sum()
        scale = self.max_norm / (total.sqrt() + 1e-6)
        return shard * scale.clamp(max=1.0)

    def step(self):
        parameters = list(self.model.parameters())
        gradient = torch.cat([parameter.grad.view(-1) for parameter in parameters]) / self.world_size
        dist.all_reduce(gradient)
        shard = gradient.chunk(self.world_size)[self.rank]
        with torch.no_grad():
            flat = parameters_to_vector(parameters)
            own = flat.chunk(self.world_size)[self.rank] - self.lr * self._clip(shard)
            parts = [torch.empty_like(own) for _ in range(self.world_size)]
            dist.all_gather(parts, own.contiguous())
            updated = torch.cat(parts)
            vector_to_parameters(updated, parameters)
            return (updated - flat).norm().item()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 8), nn.ReLU(), nn.Linear(8, 8))
    optimizer = ShardedSGD(model, lr=0.1, max_norm=0.05)
    generator = torch.Generator().manual_seed(dist.get_rank())
    update = 0.0
    for _ in range(4):
        inputs = torch.randn(16, 7, generator=generator)
        model.zero_grad()
        model(inputs).square().mean().backward()
        update = optimizer.step()
    print(f"update {update:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
