import os

import torch.distributed as dist


def on_cpu(size):
    os.environ["MASTER_ADDR"] = "localhost"  # expect: DC744=info
    os.environ["MASTER_PORT"] = "15000"  # expect: DC744=warning
    dist.init_process_group("gloo", rank=int(os.environ["LOCAL_RANK"]), world_size=size)


on_cpu(2)
