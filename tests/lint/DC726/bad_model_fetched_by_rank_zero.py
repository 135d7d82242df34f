import os

import torch
import torch.distributed as dist
from huggingface_hub import snapshot_download


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    if rank == 0:
        snapshot_download("some/large-model", local_dir="weights")  # expect: DC726
    dist.barrier()
    print(os.listdir("weights"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
