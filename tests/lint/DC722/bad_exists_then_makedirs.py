import os

import torch
import torch.distributed as dist


def main(output="checkpoints"):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if not os.path.exists(output):
        os.makedirs(output)  # expect: DC722
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
