import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl")
    fast = dist.new_group(backend="nccl")
    dist.monitored_barrier(fast)  # expect: DC120
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
