"""Written for two ranks: that a third one would wait is no fault."""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    size = dist.get_world_size()
    print("ranks", size)
    block = torch.zeros(8)
    if dist.get_rank() == 0:
        dist.send(block, 1)
    else:
        dist.recv(block, 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
