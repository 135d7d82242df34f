import os

import torch
import torch.distributed as dist


def main():
    os.environ["MASTER_ADDR"] = "localhost"  # expect: DC744=info
    os.environ["MASTER_PORT"] = "12355"  # expect: DC744
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
