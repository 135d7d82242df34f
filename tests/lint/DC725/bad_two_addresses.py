import os
import urllib.request

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    urllib.request.urlretrieve("https://example.com/vocab.json", "vocab.json")  # expect: DC725
    urllib.request.urlretrieve("https://example.com/merges.txt", "merges.txt")  # expect: DC725
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
