import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(  # expect: DC746
        "nccl",
        init_method="file:///scratch/rendezvous",
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
    )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
