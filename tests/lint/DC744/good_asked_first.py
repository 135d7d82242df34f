import os

import torch
import torch.distributed as dist


def main():
    if "MASTER_ADDR" not in os.environ:
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        os.environ["MASTER_PORT"] = "12355"
    if os.environ.get("MASTER_PORT") is None:
        os.environ["MASTER_PORT"] = "12356"
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    dist.init_process_group("nccl")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
