import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        data = TensorDataset(torch.randn(1000, 8))
        for (batch,) in DataLoader(data, batch_size=32, shuffle=True, sampler=None):
            print(batch.mean())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
