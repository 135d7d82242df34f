import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size
STOP = -1.0


def master(world_size, tasks):
    results = []
    for start in range(0, len(tasks), world_size - 1):
        group = tasks[start : start + world_size - 1]
        for worker, task in enumerate(group, 1):
            dist.send(torch.tensor([task]), dst=worker)
        for worker in range(1, len(group) + 1):
            answer = torch.empty(1)
            dist.recv(answer, src=worker)
            results.append(answer.item())
    for worker in range(1, len(group) + 1):
        dist.send(torch.tensor([STOP]), dst=worker)
    return results


def worker():
    while True:
        task = torch.empty(1)
        dist.recv(task, src=0)
        if task.item() == STOP:
            return
        dist.send(task * task, dst=0)


def main():
    rank, world_size = init_distributed()
    if rank == 0:
        print(master(world_size, [1.0, 2.0, 3.0]))
    else:
        worker()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
