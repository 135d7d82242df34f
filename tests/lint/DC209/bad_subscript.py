import os

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    if os.environ["RANK"] == 0:  # expect: DC209
        print("main process")
    if 0 != os.environ["LOCAL_RANK"]:  # expect: DC209
        print("not the first of this host")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
