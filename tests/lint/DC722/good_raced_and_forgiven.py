import contextlib
import os

import torch
import torch.distributed as dist


def main(output="out"):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    try:
        os.makedirs(output)
    except FileExistsError:
        pass
    try:
        os.mkdir(output + "/images")
    except OSError as error:
        print("exists already", error)
    with contextlib.suppress(FileExistsError):
        os.mkdir(output + "/logs")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
