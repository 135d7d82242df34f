import os
import pickle

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Data:
    def __init__(self, folder, mode="train"):
        self.folder = folder
        self.mode = mode
        self.index()

    def index(self):
        if self.mode == "train":
            self.items = [1, 2]
        else:
            self.items = [3]
            with open(os.path.join(self.folder, "valid.pkl"), "wb") as file:  # expect: DC720
                pickle.dump(self.items, file)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(8, 8).cuda())
    data = Data("runs", mode="val")
    more = Data("runs")
    model(torch.ones(8, device="cuda") * len(data.items + more.items)).sum().backward()
    dist.destroy_process_group()


def test():
    return Data("runs", mode="test")


if __name__ == "__main__":
    main()
