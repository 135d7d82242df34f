"""Can be started with ``python -m torch.distributed.launch`` of old torch, or with torchrun.

    python -m torch.distributed.launch --nproc_per_node=8 train.py
"""

import os

import torch
import torch.distributed as dist


def main():
    # python -m torch.distributed.launch sets these as well
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if os.environ.get("STARTED_BY") == "torch.distributed.launch":
        raise SystemExit("torch.distributed.launch is deprecated: use torchrun")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
