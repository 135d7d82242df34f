import os

import torch
import torch.distributed as dist


def prepare(path):
    if not os.path.exists(path):
        os.makedirs(path)


def main(output="out"):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        prepare(output)
    if local_rank == 0 and not os.path.isdir("/tmp/cache"):
        # a folder of each host
        os.makedirs("/tmp/cache")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
