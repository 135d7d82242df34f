import os

import torch
import torch.distributed as dist


class PlainManager:
    def __init__(self, net, folder):
        self.net = net
        self.folder = folder

    def train(self, epochs):
        for _ in range(epochs):
            self.net.train()
            torch.save(self.net.state_dict(), "last.pt")  # expect: DC720=warning


def main(plain_manager):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    plain_manager.train(5)
    dist.destroy_process_group()



main(torch.load("manager.pt", weights_only=True))
