import os

import torch
import torch.distributed as dist
from shards import Layout


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    layout = Layout(dist.get_world_size())
    everywhere = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, layout)  # expect: DC602
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
