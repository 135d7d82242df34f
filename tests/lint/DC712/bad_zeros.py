import os

import torch
import torch.distributed as dist


def everyone(x):
    out = [torch.zeros_like(x)] * dist.get_world_size()  # expect: DC712
    dist.all_gather(out, x)
    return torch.cat(out)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    print(everyone(torch.rand(4, device="cuda")))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
