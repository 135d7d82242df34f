import os

import torch
import torch.distributed as dist


def main():
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
    total = torch.tensor(3.0)
    if cuda:
        total = total.cuda()
    dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
