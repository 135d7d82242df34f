import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Recommender(nn.Module):
    """Users and items have sparse embeddings, because a batch touches few of them."""

    def __init__(self, users, items, width):
        super().__init__()
        self.user = nn.Embedding(users, width, sparse=True)
        self.item = nn.Embedding(items, width, sparse=True)
        self.score = nn.Sequential(nn.Linear(2 * width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, pairs):
        features = torch.cat([self.user(pairs[:, 0]), self.item(pairs[:, 1])], dim=1)
        return self.score(features).squeeze(1)


def ratings(users, items, size):
    generator = torch.Generator().manual_seed(3)
    user = torch.randint(users, (size,), generator=generator)
    item = torch.randint(items, (size,), generator=generator)
    liked = (torch.sin(user.float()) * torch.cos(item.float()) > 0).float()
    return TensorDataset(torch.stack([user, item], dim=1), liked)


def broadcast_weights(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)


def average_gradients(model):
    world = dist.get_world_size()
    for parameter in model.parameters():
        if parameter.grad is None:
            continue
        gradient = parameter.grad
        dist.all_reduce(gradient)
        gradient /= world


def train(model, loader, sampler, args):
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        total = 0.0
        for pairs, liked in loader:
            optimizer.zero_grad()
            loss = criterion(model(pairs), liked)
            loss.backward()
            average_gradients(model)
            optimizer.step()
            total += loss.item()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {total / len(loader):.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--items", type=int, default=60)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    data = ratings(args.users, args.items, 128)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model = Recommender(args.users, args.items, 8)
    broadcast_weights(model)
    train(model, loader, sampler, args)
    dist.barrier()
    if dist.get_rank() == 0:
        print("finished")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
