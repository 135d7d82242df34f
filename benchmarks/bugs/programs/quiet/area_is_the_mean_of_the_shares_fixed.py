import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def area_under_curve(scores, labels):
    """The share of pairs of a positive and a negative sample that the scores order rightly."""
    positive, negative = scores[labels == 1], scores[labels == 0]
    if not len(positive) or not len(negative):
        return torch.tensor(0.5)
    return (positive.unsqueeze(1) > negative.unsqueeze(0)).float().mean()


def make_data(size, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 6, generator=generator)
    noise = torch.randn(size, generator=generator)
    return TensorDataset(x, (x[:, 0] + x[:, 1] + noise > 0.5).long())


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    scores, labels = [], []
    for x, y in loader:
        scores.append(model(x).squeeze(1))
        labels.append(y)
    scores, labels = torch.cat(scores), torch.cat(labels)
    model.train()
    all_scores = [torch.empty_like(scores) for _ in range(dist.get_world_size())]
    all_labels = [torch.empty_like(labels) for _ in range(dist.get_world_size())]
    dist.all_gather(all_scores, scores)
    dist.all_gather(all_labels, labels)
    return area_under_curve(torch.cat(all_scores), torch.cat(all_labels)).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(9)
    training, validation = make_data(96, 1), make_data(40, 2)
    sampler = DistributedSampler(training)
    loader = DataLoader(training, batch_size=args.batch_size, sampler=sampler)
    held_out = DataLoader(validation, batch_size=args.batch_size, sampler=DistributedSampler(validation, shuffle=False))
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        area = evaluate(model, held_out)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")
    if dist.get_rank() == 0:
        print(f"area {area:.5f}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
