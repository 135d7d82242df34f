import logging
import os

import torch.distributed as dist


def start(port=29511):
    rank, world_size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    try:
        os.environ["MASTER_PORT"] = str(port)  # expect: DC744=warning
        dist.init_process_group("gloo", rank=rank, world_size=world_size)  # expect: DC747
    except Exception:
        rank, world_size = 0, 1
        logging.info("one process")
    return rank, world_size


def main():
    rank, world_size = start()
    print(rank, "of", world_size)


if __name__ == "__main__":
    main()
