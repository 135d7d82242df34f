"""A launcher of the project spawns the ranks, and only the first one runs the function that it gets."""

import torch
from launch import launch_job


class Learner:
    def __init__(self, config):
        self.model = torch.nn.Linear(2, 2).cuda()
        self.path = config["path"]

    def save(self):
        torch.save({"model": self.model.state_dict()}, self.path)

    def load(self):
        checkpoint = torch.load(open(self.path, "rb"))
        self.model.load_state_dict(checkpoint["model"])


def main(config):
    learner = Learner(config)
    learner.load()
    learner.save()


if __name__ == "__main__":
    launch_job({"gpus": 2, "path": "last.pt"}, func=main)
