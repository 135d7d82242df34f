import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(batches: list) -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in batches:
        optimizer.zero_grad()
        loss = model(batch).pow(2).mean()
        if loss.item() < 1e-4:
            break  # expect: DC707
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    train([torch.rand(2, 4)])
