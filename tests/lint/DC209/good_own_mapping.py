import os

import torch
import torch.distributed as dist

environ = {"RANK": 0, "WORLD_SIZE": 1}


class Settings:
    environ = environ


def is_main(settings):
    return environ["RANK"] == 0 or settings.environ.get("RANK") == 0


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if is_main(Settings()) and dist.get_rank() == 0:
        print("main")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
