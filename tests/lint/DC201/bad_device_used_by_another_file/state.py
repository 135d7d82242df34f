import os

import torch


class State:
    def __init__(self):
        self.nnodes = int(os.environ["NNODES"])
        self.device = torch.device("cuda", int(os.environ["RANK"]))  # expect: DC201
