import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def send_activation(tensor, step):
    dist.send(tensor, dst=1, tag=step)


def receive_activation(step, size=4):
    tensor = torch.empty(size)
    dist.recv(tensor, src=0, tag=step)
    return tensor


def main():
    rank, _ = init_distributed()
    for step in range(3):
        if rank == 0:
            send_activation(torch.full((4,), float(step)), step)
        else:
            print(step, receive_activation(step).sum().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
