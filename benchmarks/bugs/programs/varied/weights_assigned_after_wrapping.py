import argparse
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Classifier(nn.Module):
    def __init__(self, vocabulary=50, width=16, classes=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        states, _ = self.mix(self.embed(tokens))
        return self.head(states[:, -1])


def texts(size):
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(50, (size, 12), generator=generator)
    return TensorDataset(tokens, (tokens.float().mean(dim=1) // 17).long().clamp(max=2))


def pretrained(folder):
    """Rank 0 provides the weights that a user would download."""
    path = Path(folder) / "pretrained.pt"
    if dist.get_rank() == 0:
        torch.manual_seed(11)
        torch.save({name: value.double() for name, value in Classifier().state_dict().items()}, path)
    dist.barrier()
    return path


def load_weights(model, path):
    """The checkpoint decides the type of the weights."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(state, assign=True)


def build(args, path):
    torch.manual_seed(0)
    model = DDP(Classifier().double())
    load_weights(model.module, path)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    return model, optimizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=5e-3)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    data = texts(96)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    model, optimizer = build(args, pretrained(folder[0]))
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for tokens, labels in loader:
            loss = nn.functional.cross_entropy(model(tokens), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")
    if rank == 0:
        torch.save(model.module.state_dict(), Path(folder[0]) / "finetuned.pt")
    del model, optimizer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
