"""Work is dealt out; the index is not a rank."""

import torch

for number in range(10):
    device = torch.device("cuda", number % torch.cuda.device_count())
    print(torch.ones(1, device=device))
