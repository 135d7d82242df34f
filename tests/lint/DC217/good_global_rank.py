import os

import torch

rank = int(os.environ["RANK"])
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = torch.nn.Linear(4, 4).cuda()
if rank == 0:
    torch.save(model.state_dict(), "last.pt")
if local_rank == 0:
    print("one line for each node")
