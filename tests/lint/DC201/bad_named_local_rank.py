"""The name promises the local rank; the value is the global one."""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    local_rank = dist.get_rank()
    torch.cuda.set_device(local_rank)  # expect: DC201=info
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
