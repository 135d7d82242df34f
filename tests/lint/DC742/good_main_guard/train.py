import os

import torch
import torch.distributed as dist


def step(model, batch):
    return model(batch).mean()


if __name__ == "__main__":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    print(dist.get_rank())
    dist.destroy_process_group()
