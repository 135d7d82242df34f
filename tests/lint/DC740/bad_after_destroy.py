import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    loss = torch.rand(1, device="cuda")
    dist.all_reduce(loss)
    dist.destroy_process_group()
    if dist.get_rank() == 0:  # expect: DC740
        print(loss.item())


if __name__ == "__main__":
    main()
