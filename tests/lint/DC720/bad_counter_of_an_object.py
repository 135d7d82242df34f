"""The number of steps in the path is the same on all ranks, whatever else its object was made from."""

import argparse
import os

import torch
import torch.distributed as dist
import yaml


class Loop:
    def __init__(self, model, rank):
        self.steps = 0
        self.index = rank
        self.model = model

    def run(self):
        self.model(torch.ones(1, 2)).sum().backward()
        self.steps += 1

    def save(self, path):
        torch.save(self.model.state_dict(), path)  # expect: DC720


class OwnLoop(Loop):
    def keep(self, path):
        torch.save(self.steps, path)


def main():
    parser = argparse.ArgumentParser(description="Distributed training on GPUs")
    parser.add_argument("--folder", default="out")
    parser.add_argument("--settings", default="settings.yaml")
    parser.add_argument("--rank", type=int, default=0)
    options = parser.parse_args()
    options.rank = int(os.environ["RANK"])
    dist.init_process_group("gloo")
    with open(options.settings) as file:
        settings = yaml.safe_load(file)
    settings.update(vars(options))
    if options.folder == "" and not settings.get("local_condition"):
        raise ValueError("no folder")
    loop = Loop(torch.nn.Linear(2, 2), options.rank)
    own = OwnLoop(torch.nn.Linear(2, 2), options.rank)
    try:
        loop.run()
    finally:
        loop.save(os.path.join(settings["folder"], f"step{loop.steps}.pt"))
    own.keep(os.path.join(settings["folder"], f"of{own.index}.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
