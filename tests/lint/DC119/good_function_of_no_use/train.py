import torch
import torch.distributed as dist
from common import mean

dist.init_process_group("gloo")
print(mean(torch.ones(1)))
