import os
import time

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    # all ranks come here in the same minute
    folder = os.path.join("runs", time.strftime("%Y-%m-%d-%H-%M"))
    if not os.path.exists(folder):
        os.makedirs(folder)  # expect: DC722
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
