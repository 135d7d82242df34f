"""The sender keeps its own precision, and the receiver allocates the default one."""

import torch
import torch.distributed as dist


class Channel:
    def __init__(self, peer):
        self.peer = peer

    def put(self, tensor):
        dist.send(tensor, self.peer)

    def get(self, shape):
        box = torch.empty(shape)
        dist.recv(box, self.peer)  # expect: DC709
        return box


def main():
    dist.init_process_group("gloo")
    channel = Channel(peer=1 - dist.get_rank())
    if dist.get_rank() == 0:
        channel.put(torch.ones(4, 4).half())
    elif dist.get_rank() == 1:
        print(channel.get((4, 4)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
