import os
import urllib.request

import torch
import torch.distributed as dist


def fetch(url, target="weights.bin"):
    if not os.path.exists(target):
        urllib.request.urlretrieve(url, target)  # expect: DC725
    return target


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    size = torch.tensor([os.path.getsize(fetch("https://example.org/weights.bin"))], device="cuda")
    dist.all_reduce(size)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
