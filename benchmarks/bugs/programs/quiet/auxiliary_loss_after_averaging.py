import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Segmenter(nn.Module):
    """A main head, and an auxiliary head on the middle of the encoder."""

    def __init__(self, channels, classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(10, channels), nn.GELU())
        self.body = nn.Sequential(nn.Linear(channels, channels), nn.GELU())
        self.head = nn.Linear(channels, classes)
        self.auxiliary = nn.Linear(channels, classes)

    def forward(self, x):
        middle = self.stem(x)
        return self.head(self.body(middle)), self.auxiliary(middle)


class Engine:
    """Replicas without a wrapper: start weights and gradients are shared by hand."""

    def __init__(self, model, lr, weight):
        self.model, self.weight = model, weight
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        for parameter in model.parameters():
            dist.broadcast(parameter.data, src=0)

    def average_gradients(self):
        for parameter in self.model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    def train_step(self, x, target):
        self.optimizer.zero_grad()
        logits, auxiliary = self.model(x)
        main_loss = F.cross_entropy(logits, target)
        auxiliary_loss = self.weight * F.cross_entropy(auxiliary, target)
        # two passes, so that the activations of the body are freed before the second one
        main_loss.backward(retain_graph=True)
        self.average_gradients()
        auxiliary_loss.backward()
        self.optimizer.step()
        return main_loss.item() + auxiliary_loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--auxiliary-weight", type=float, default=0.4)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    x = torch.randn(64, 10)
    data = TensorDataset(x, x[:, :3].argmax(dim=1))
    sampler = DistributedSampler(data, seed=3)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    engine = Engine(Segmenter(16, 3), lr=1e-2, weight=args.auxiliary_weight)
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        losses = [engine.train_step(*batch) for batch in loader]
        mean = torch.tensor(sum(losses) / len(losses))
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {mean.item() / dist.get_world_size():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
