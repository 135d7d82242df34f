import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    for shard in range(dist.get_rank(), 64, dist.get_world_size()):
        torch.save(torch.zeros(4), os.path.join("out", f"shard_{shard}.pt"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
