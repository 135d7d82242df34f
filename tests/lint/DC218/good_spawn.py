"""mp.spawn starts afresh; a context can, too."""

import torch
import torch.multiprocessing as mp


def child(index):
    print(torch.ones(1).cuda() + index)


if __name__ == "__main__":
    torch.cuda.init()
    mp.spawn(child, nprocs=2)
    process = mp.get_context("spawn").Process(target=child, args=(2,))
    process.start()
    process.join()
