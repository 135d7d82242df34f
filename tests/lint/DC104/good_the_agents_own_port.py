import os

import torch
import torch.distributed as dist


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    url = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    dist.init_process_group(
        "nccl", init_method=url, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"])
    )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
