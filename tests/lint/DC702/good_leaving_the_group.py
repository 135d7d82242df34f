import sys

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    value = torch.ones(1)
    dist.all_reduce(value)
    if dist.get_rank() != 0:
        dist.destroy_process_group()
        sys.exit(0)
    print(value)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
