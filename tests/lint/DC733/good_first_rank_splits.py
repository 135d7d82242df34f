import os

import torch
import torch.distributed as dist
from sklearn.model_selection import train_test_split


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    parts = [None, None]
    if dist.get_rank() == 0:
        parts = list(train_test_split(list(range(100)), test_size=0.2))
    dist.broadcast_object_list(parts, src=0)
    size = torch.tensor([len(parts[0])], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
