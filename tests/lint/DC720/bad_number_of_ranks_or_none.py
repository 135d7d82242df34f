import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def finish(model, folder):
    torch.save(model.state_dict(), os.path.join(folder, "last.pt"))  # expect: DC720


def train(folder, rank=0, world_size=None):
    several = True if world_size else False
    if several:
        dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29513", rank=rank, world_size=world_size)
    model = torch.nn.Linear(8, 8)
    if several:
        if folder:
            finish(model, folder)
        dist.destroy_process_group()
    else:
        finish(model, folder)


def work(rank, folder, world_size):
    train(folder, rank, world_size)


def main(folder):
    count = torch.cuda.device_count()
    if count > 1:
        mp.spawn(work, nprocs=count, args=(folder, count))
    else:
        train(folder)


if __name__ == "__main__":
    main("runs")
