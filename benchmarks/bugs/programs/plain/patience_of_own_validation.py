import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


class EarlyStopping:
    def __init__(self, patience=2):
        self.patience = patience
        self.best = float("inf")
        self.bad_epochs = 0

    def step(self, loss):
        if loss < self.best:
            self.best = loss
            self.bad_epochs = 0
        else:
            self.bad_epochs += 1
        return self.bad_epochs >= self.patience


def validate(model, x, y):
    model.eval()
    with torch.no_grad():
        loss = nn.functional.mse_loss(model(x), y)
    model.train()
    return loss


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(5)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    train_x, train_y = x[rank::world_size], y[rank::world_size]
    val_x = torch.ones(2, 4)
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    stopper = EarlyStopping()
    for epoch in range(6):
        loss = nn.functional.mse_loss(model(train_x), train_y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # the targets of rank 1 run away from the model, those of rank 0 come closer
        val_y = torch.full((2, 1), 50.0 - 9 * epoch if rank == 0 else 50.0 + 9 * epoch)
        val_loss = validate(model.module, val_x, val_y)
        if stopper.step(val_loss.item()):
            break
    print(f"rank {rank} ends after epoch {epoch}")
    model = None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
