import os

import torch
import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def on_scale(value):
    dist.send(value * 2, dst=0)


def on_reset(value):
    dist.send(value.zero_(), dst=0)
HANDLERS = [on_scale, on_reset]


def main():
    rank, _ = init_distributed()
    requests = [0, 0, 1, 0]
    if rank == 0:
        for kind in requests:
            dist.send(torch.tensor([float(kind), 5.0]), dst=1)
            answer = torch.empty(1)
            dist.recv(answer, src=1)
            print(f"request {kind}: {answer.item()}")
    else:
        for _ in requests:
            request = torch.empty(2)
            dist.recv(request, src=0)
            HANDLERS[int(request[0])](request[1:].clone())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
