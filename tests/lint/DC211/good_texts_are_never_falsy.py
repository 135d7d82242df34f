import os

import torch
import torch.distributed as dist


def main():
    rank = os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or "0"
    local_rank = os.environ.get("LOCAL_RANK")
    index = int(local_rank) if local_rank else 0
    torch.cuda.set_device(index)
    dist.init_process_group("nccl")
    print(int(rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
