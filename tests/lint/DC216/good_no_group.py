"""One process: its GPU may be the first."""

import torch

device = torch.device("cuda:0")
model = torch.nn.Linear(4, 4).to(device).cuda(0)
print(model(torch.ones(1, 4, device=device)))
