import os

import torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
os.environ["RANK"] = f"{local_rank}"  # expect: DC219=info
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
