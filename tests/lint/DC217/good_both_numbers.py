import os

import torch

local_rank = int(os.environ["LOCAL_RANK"])
node_rank = int(os.environ["NODE_RANK"])
rank = int(os.environ["RANK"])
if local_rank == 0 and node_rank == 0:
    torch.save(torch.ones(4), "model.pt")
if rank == 0 and local_rank == 0:
    torch.save(torch.ones(4), "optimizer.pt")
