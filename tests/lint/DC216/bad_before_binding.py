"""The device is bound, but the model is on GPU 0 by then."""

import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    model = torch.nn.Linear(4, 4).cuda()  # expect: DC216
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torch.nn.parallel.DistributedDataParallel(model)
    print(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
