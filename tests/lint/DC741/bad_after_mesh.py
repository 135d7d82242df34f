"""init_device_mesh creates the process group where there is none."""
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    dist.init_process_group("nccl")  # expect: DC741
    print(mesh)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
