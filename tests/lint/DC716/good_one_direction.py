"""A function that only one side calls, and one that names its peer from outside."""

import torch
import torch.distributed as dist


def ask(value: torch.Tensor, server: int) -> torch.Tensor:
    dist.send(value, dst=server)
    dist.recv(value, src=server)
    return value


def serve(clients: int) -> None:
    value = torch.empty(4)
    for client in range(1, clients + 1):
        dist.recv(value, src=client)
        dist.send(value * 2, dst=client)


def main() -> None:
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        serve(dist.get_world_size() - 1)
    else:
        ask(torch.ones(4), 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
