import os

import torch.distributed as dist


def prepare(alone):
    if alone:
        os.environ["MASTER_ADDR"] = "localhost"  # expect: DC744=info
    dist.init_process_group("gloo", rank=int(os.environ["LOCAL_RANK"]), world_size=4)  # expect: DC219=info


prepare(False)
