import os

import torch

local_rank = int(os.environ.get("LOCAL_RANK", -1))
model = torch.nn.Linear(4, 4).to(local_rank)  # expect: DC215
print(model.weight.device)
