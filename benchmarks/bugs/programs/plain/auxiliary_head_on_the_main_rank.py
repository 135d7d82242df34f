import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Classifier(nn.Module):
    def __init__(self, width, with_probe=False):
        super().__init__()
        self.body = nn.Linear(4, width)
        self.head = nn.Linear(width, 2)
        self.probe = nn.Linear(width, 1) if with_probe else None

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        logits = self.head(hidden)
        if self.probe is not None:
            logits = logits + self.probe(hidden)
        return logits


def main():
    dist.init_process_group("gloo")
    is_main = dist.get_rank() == 0
    torch.manual_seed(8)
    model = DDP(Classifier(8, with_probe=is_main))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        loss = nn.functional.cross_entropy(model(torch.randn(4, 4)), torch.randint(2, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if is_main:
            print(f"loss {loss.item():.4f}")
    model = None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
