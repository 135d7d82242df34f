import os

import torch
import torch.distributed as dist

os.environ.setdefault("TENSORBOARD_PORT", "46006")
DASHBOARD = "http://localhost:45000"


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        print("see", DASHBOARD)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
