"""One rank leads, the others follow: how often each loops can't be read off the code."""

import torch
import torch.distributed as dist


def lead(requests: list) -> None:
    order = torch.zeros(1)
    for request in requests:
        order.fill_(request)
        dist.broadcast(order, src=0)
    order.fill_(-1)
    dist.broadcast(order, src=0)


def follow() -> None:
    order = torch.zeros(1)
    while True:
        dist.broadcast(order, src=0)
        if order.item() < 0:
            return
        print("working on", order.item())


def main() -> None:
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        lead([1, 2, 3])
    else:
        follow()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
