import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Adapter(nn.Module):
    def __init__(self, layer, rank=2):
        super().__init__()
        self.layer = layer
        self.down = nn.Parameter(torch.randn(rank, layer.in_features) * 0.1)
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))

    def forward(self, x):
        return self.layer(x) + x @ self.down.t() @ self.up.t()


def with_adapters(model):
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear) and name != "head":
            setattr(model, name, Adapter(child))
    return model


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(6, 6)
        self.value = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.sigmoid(self.query(x)) * self.value(x))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(8)
    encoder = Encoder()
    ddp = DistributedDataParallel(encoder)
    with_adapters(encoder)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.3)
    torch.manual_seed(70 + rank)
    for step in range(5):
        x, wanted = torch.randn(8, 6), torch.randint(3, (8,))
        loss = nn.functional.cross_entropy(ddp(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"rank {rank} loss {loss.item():.3f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
