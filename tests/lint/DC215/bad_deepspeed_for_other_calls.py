import argparse

import torch
from deepspeed.ops.adam import FusedAdam

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
options = parser.parse_args()
device = torch.device("cuda", options.local_rank)  # expect: DC215
model = torch.nn.Linear(2, 2).to(device)
print(FusedAdam(model.parameters()))
