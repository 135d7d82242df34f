import os

import torch
import torch.distributed as dist


def main():
    seconds = 20
    os.environ["TORCH_GLOO_TIMEOUT"] = str(seconds)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    dist.init_process_group("gloo")
    value = torch.ones(1)
    dist.all_reduce(value)
    print(value.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
