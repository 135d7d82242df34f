import os

import numpy as np
import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
order = torch.from_numpy(np.random.permutation(1000))
dist.broadcast(order, src=0)  # expect: DC714
dist.destroy_process_group()
