import os

import torch
import torch.distributed as dist


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")


def main():
    setup()
    model = torch.nn.Linear(4, 4).cuda()
    dist.init_process_group(backend="nccl")  # expect: DC741
    print(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
