import os

import torch
import torch.distributed as dist

os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # expect: DC119


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
