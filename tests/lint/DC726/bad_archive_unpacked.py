import os
import tarfile

import torch
import torch.distributed as dist


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        with tarfile.open("imagenet.tar") as archive:
            archive.extractall("images")  # expect: DC726
    dist.barrier()
    print(len(os.listdir("images")))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
