import os

import torch
import torch.distributed as td


def evaluate(model, loader):
    correct = torch.zeros(1, device="cuda")
    for images, labels in loader:
        correct += (model(images).argmax(1) == labels).sum()
    correct = td.all_reduce(correct, op=td.ReduceOp.SUM)  # expect: DC710
    return correct.item() / len(loader.dataset)


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    td.init_process_group("nccl")


def main(model, loader):
    setup()
    print(evaluate(model, loader))
    td.destroy_process_group()
