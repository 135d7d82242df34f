"""Every rank binds the first GPU: NCCL refuses the second one."""

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(0)  # expect: DC303
    dist.init_process_group("nccl")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
