import os

import torch

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank % torch.cuda.device_count())  # expect: DC212
print(torch.ones(1, device="cuda"))
