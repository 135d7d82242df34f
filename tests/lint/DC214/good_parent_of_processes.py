"""The parent counts, the children (which start afresh) find the mask when they begin."""

import os

import torch
import torch.multiprocessing as mp


def child(mask):
    os.environ["CUDA_VISIBLE_DEVICES"] = mask
    print(torch.ones(1, device="cuda"))


if __name__ == "__main__":
    context = mp.get_context("spawn")
    children = [context.Process(target=child, args=(str(gpu),)) for gpu in range(torch.cuda.device_count())]
    for process in children:
        process.start()
    for process in children:
        process.join()
