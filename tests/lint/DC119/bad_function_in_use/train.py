import os

import torch
from common import mean, start_quietly

start_quietly(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
print(mean(torch.ones(1)))
