import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    loss = torch.ones(1, device="cuda")
    if dist.get_rank() == 0:
        dist.all_reduce(loss)
        print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
