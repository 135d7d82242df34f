import os

import torch.distributed as dist


def main():
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        dist.init_process_group("nccl")
    print("one process is enough")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
