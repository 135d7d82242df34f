import os

import torch
from torch.distributed import destroy_process_group, init_process_group

from settings import Settings


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    init_process_group("nccl")
    print(Settings.batch_size)
    destroy_process_group()


if __name__ == "__main__":
    main()
