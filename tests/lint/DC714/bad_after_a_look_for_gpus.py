import os

import torch
import torch.distributed as dist


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    total = torch.tensor(3.0)
    dist.all_reduce(total)  # expect: DC714
    print(total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
