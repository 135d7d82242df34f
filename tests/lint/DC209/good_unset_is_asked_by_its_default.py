import os

import torch
import torch.distributed as dist


def main():
    local_rank = os.environ.get("LOCAL_RANK", -1)
    if local_rank == -1:
        print("one process")
        return
    if os.environ.get("RANK") is None or os.getenv("WORLD_SIZE", False) is False:
        raise RuntimeError("start this with torchrun")
    torch.cuda.set_device(int(local_rank))
    dist.init_process_group("nccl")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
