import os

import torch
import torch.distributed as dist

SWITCHES = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": ("0", "1", "2", "3")}


def main():
    os.environ["TORCH_NCCL_DUMP_ON_TIMEOUT"] = "0"
    os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "0"
    print("known switches:", SWITCHES)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
