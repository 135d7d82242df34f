import os

import torch
import torch.distributed as dist


def main():
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "65536")  # expect: DC402
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
