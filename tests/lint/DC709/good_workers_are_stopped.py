"""The number of messages is different for each worker, and an end mark stops each of them."""

import torch
import torch.distributed as dist

FILES = 10


def hand_out(workers):
    for number in range(FILES):
        dist.send(torch.tensor([number]), dst=number % workers + 1)
    for worker in range(workers):
        dist.send(torch.tensor([-1]), dst=worker + 1)


def work():
    name = torch.zeros(1, dtype=torch.int64)
    while True:
        dist.recv(name, src=0)
        if name.item() < 0:
            break


def main():
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        hand_out(dist.get_world_size() - 1)
    else:
        work()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
