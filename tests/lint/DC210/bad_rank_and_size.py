import os

import torch
import torch.distributed as dist


def main():
    rank = int(os.environ["SLURM_PROCID"])
    os.environ["RANK"] = rank  # expect: DC210
    os.environ["WORLD_SIZE"] = int(os.environ["SLURM_NTASKS"])  # expect: DC210
    os.environ["LOCAL_RANK"] = rank % torch.cuda.device_count()  # expect: DC210
    torch.cuda.set_device(int(os.environ["SLURM_LOCALID"]))
    dist.init_process_group("nccl")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
