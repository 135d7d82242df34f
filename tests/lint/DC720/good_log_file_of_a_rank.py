import logging
import os
import sys

import torch.distributed as dist


def main(folder):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logger = logging.getLogger("training")
    logger.addHandler(logging.FileHandler(os.path.join(folder, f"train_{rank}.log"), mode="w"))
    logger.info("rank %d", rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
