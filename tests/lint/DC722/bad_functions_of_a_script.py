import os

import torch
import torch.distributed as dist


def prepare(folder):

    dist.barrier()
    os.makedirs(folder)  # expect: DC722


class Store:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def _again(self):
        dist.barrier()
        os.makedirs(self.folder)  # expect: DC722


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    prepare("logs")
    Store("runs")._again()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
