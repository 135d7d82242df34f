"""One arm of a conditional expression is enough."""

import os

import torch

rank = int(os.getenv("RANK", "0"))
device = torch.device(f"cuda:{rank}" if torch.cuda.is_available() else "cpu")  # expect: DC201=info
model = torch.nn.Linear(4, 4).to(device)
print(model.weight.device)
