import os

import torch
import torch.distributed as dist


def second_group(address, port):
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(
        "nccl",
        init_method=f"tcp://{address}:{port}",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )


def close():
    dist.destroy_process_group()
