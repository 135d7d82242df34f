import argparse
import shutil
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn


def is_main():
    return dist.get_rank() == 0


def prepare(folder, files, samples):
    """Unpack the archive into the scratch folder."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    for index in range(files):
        torch.save(torch.randn(samples, 4, generator=generator), folder / f"part{index:03}.pt")


class Parts:
    """Files of this rank, each read when it is needed."""

    def __init__(self, folder):
        paths = sorted(folder.glob("part*.pt"))
        self.paths = paths[dist.get_rank() :: dist.get_world_size()]

    def __iter__(self):
        for path in self.paths:
            yield torch.load(path)


@torch.no_grad()
def embed(model, parts, pause):
    model.eval()
    total, count = torch.zeros(8), 0
    for samples in parts:
        # this node is slower
        time.sleep(pause)
        total += model(samples).sum(dim=0)
        count += len(samples)
    return total, torch.tensor(float(count))


def clean_up(folder):
    dist.barrier()
    if is_main():
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scratch", type=Path, default=Path("scratch"))
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--samples", type=int, default=16)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    if is_main():
        prepare(args.scratch, args.files, args.samples)
    dist.barrier()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
    parts = Parts(args.scratch)
    total, count = embed(model, parts, pause=0.0 if is_main() else 0.6)
    clean_up(args.scratch)
    dist.all_reduce(total)
    dist.all_reduce(count)
    if is_main():
        torch.save(total / count, "mean_embedding.pt")
        print(f"mean of {int(count)} samples")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
