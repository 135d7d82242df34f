import os

import torch
import torch.distributed as dist


def main():
    rank = int(os.environ.get("RANK", 0))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device_index = local_rank if local_rank else rank % torch.cuda.device_count()  # expect: DC211
    torch.cuda.set_device(device_index)
    device = f"cuda:{local_rank}" if local_rank else "cpu"  # expect: DC211
    dist.init_process_group("nccl")
    dist.all_reduce(torch.ones(1, device=torch.device("cuda", local_rank)))
    print(device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
