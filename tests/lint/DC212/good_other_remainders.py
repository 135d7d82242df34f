import os

import torch

rank = int(os.environ["RANK"])
step = 7
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
print(step % torch.cuda.device_count(), rank % 2, rank % int(os.environ["WORLD_SIZE"]))
