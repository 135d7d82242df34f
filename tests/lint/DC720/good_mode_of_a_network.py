import os

import torch
import torch.distributed as dist


class PlainManager:
    """For one process: nothing of the distributed run makes one."""

    def __init__(self, net, folder):
        self.net = net
        self.folder = folder

    def write(self):
        torch.save(self.net.state_dict(), "last.pt")

    def train(self, epochs):
        for _ in range(epochs):
            self.net.train()
            self.write()


class SharedManager:
    def __init__(self, net, folder, is_root):
        self.net = net
        self.folder = folder
        self.is_root = is_root

    def write(self):
        if self.is_root:
            torch.save(self.net.state_dict(), "last.pt")


def one_epoch(manager, args):
    net = manager.net
    net.train()
    args.teacher_model.train()
    manager.optimizer.step()


def main(args):
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    manager = SharedManager(torch.nn.Linear(8, 8).cuda(), "runs", is_root=dist.get_rank() == 0)
    one_epoch(manager, args)
    manager.write()
    dist.destroy_process_group()
