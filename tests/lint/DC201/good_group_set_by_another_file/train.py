import os

import comm
import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    per_host = int(os.environ["LOCAL_WORLD_SIZE"])
    for first in range(0, dist.get_world_size(), per_host):
        members = list(range(first, first + per_host))
        group = dist.new_group(members)
        if dist.get_rank() in members:
            comm._GROUP_OF_HOST = group
    torch.cuda.set_device(comm.rank_on_host())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
