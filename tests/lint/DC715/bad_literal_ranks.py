import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    first = dist.new_group([0, 1])
    second = dist.new_group([2, 3])
    weights = torch.zeros(8, device="cuda")
    if dist.get_rank() in (0, 1):
        dist.broadcast(weights, src=0, group=first)
    else:
        dist.broadcast(weights, src=0, group=second)  # expect: DC715
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
