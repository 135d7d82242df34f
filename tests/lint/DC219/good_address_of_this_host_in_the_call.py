import os

import torch.distributed as dist

size = 2
dist.init_process_group(  # expect: DC744=warning
    "gloo",
    init_method="tcp://127.0.0.1:29501",
    rank=int(os.environ["LOCAL_RANK"]),
    world_size=size,
)
dist.destroy_process_group()
