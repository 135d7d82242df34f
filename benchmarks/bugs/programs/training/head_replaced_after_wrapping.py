import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU())
        self.head = nn.Linear(32, classes)

    def forward(self, inputs):
        return self.head(self.backbone(inputs))


def for_new_task(model, classes):
    """Keep the backbone, and give the model a new classifier."""
    torch.manual_seed(3)
    model.head = nn.Linear(32, classes)
    return model


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    model = Classifier(classes=100)
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    for_new_task(ddp.module, classes=5)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(rank)
    for step in range(5):
        inputs = torch.randn(8, 12, generator=generator)
        targets = inputs[:, :5].argmax(1)
        loss = nn.functional.cross_entropy(ddp(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"step {step}: {loss.item():.4f}")
    del ddp
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
