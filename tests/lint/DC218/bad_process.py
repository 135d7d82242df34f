"""The parent has started CUDA, and its child is a fork of it."""

import torch
import torch.multiprocessing as mp


def child(index):
    print(torch.ones(1).cuda() + index)


def main():
    torch.cuda.init()
    process = mp.Process(target=child, args=(1,))  # expect: DC218
    process.start()
    process.join()


if __name__ == "__main__":
    main()
