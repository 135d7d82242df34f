"""In the function that wraps the model, every rank writes the settings; the summary is written by one."""

import argparse
import json
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(options):
    folder = Path(options.output)
    with open(folder / "options.json", "w") as file:  # expect: DC720
        json.dump(vars(options), file)
    model = DDP(torch.nn.Linear(2, 2))
    model(torch.ones(1, 2)).sum().backward()
    with open(folder / f"rank{dist.get_rank()}.json", "w") as file:
        json.dump({"done": True}, file)
    with open(folder / "log.txt", "a") as file:  # expect: DC720=info
        file.write("done\n")
    if dist.get_rank() == 0:
        with open(folder / "summary.json", "w") as file:
            json.dump({"done": True}, file)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="out")
    dist.init_process_group("gloo")
    train(parser.parse_args())
    dist.destroy_process_group()
