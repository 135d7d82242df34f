import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.set_default_tensor_type("torch.cuda.FloatTensor")
dist.init_process_group("nccl")
total = torch.zeros(4)
dist.all_reduce(total)
dist.destroy_process_group()
