import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def build(args):
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=4)
    return model, optimizer, scaler


def train(model, optimizer, scaler, loader, sampler, epochs):
    for epoch in epochs:
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x).float(), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    return loss.item()


def save(path, model, optimizer, scaler):
    if dist.get_rank() == 0:
        state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
        torch.save(state, path)
    dist.barrier()


def resume(path, model, optimizer, scaler):
    state = torch.load(path, map_location="cpu")
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    scaler.load_state_dict(state["scaler"])
    if dist.get_rank() == 0:
        print(f"resumed with a scale of {scaler.get_scale():g}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 10, generator=generator)
    data = TensorDataset(x, x[:, :3].argmax(dim=1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=args.batch_size, sampler=sampler)
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    path = Path(folder[0]) / "last.pt"

    model, optimizer, scaler = build(args)
    train(model, optimizer, scaler, loader, sampler, range(args.epochs))
    save(path, model, optimizer, scaler)
    del model
    model, optimizer, scaler = build(args)
    resume(path, model, optimizer, scaler)
    loss = train(model, optimizer, scaler, loader, sampler, range(args.epochs, 2 * args.epochs))
    print(f"rank {dist.get_rank()}: loss {loss:.4f}")
    del model
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
