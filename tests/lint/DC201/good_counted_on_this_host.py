"""The local rank is counted among the ranks of this host."""

import socket

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    hosts = [None] * dist.get_world_size()
    dist.all_gather_object(hosts, socket.gethostname())
    rank = dist.get_rank()
    index = hosts[:rank].count(hosts[rank])
    torch.cuda.set_device(index)
    print(torch.ones(1, device=f"cuda:{index}"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
