import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group(backend="nccl")
    device = torch.device("cuda", int(os.environ["RANK"]))  # expect: DC201=error
    print(torch.zeros(1, device=device))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
