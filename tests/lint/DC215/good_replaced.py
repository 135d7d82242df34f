import os

import torch

local_rank = int(os.environ.get("LOCAL_RANK", -1))
if local_rank == -1:
    local_rank = 0
torch.cuda.set_device(local_rank)
print(torch.ones(1, device=f"cuda:{max(local_rank, 0)}"))
