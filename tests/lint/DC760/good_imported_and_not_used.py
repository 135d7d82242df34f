"""The old name is imported and never called: torch warns when it is called."""

import torch.distributed as dist
from torch.distributed import _get_global_rank


def main():
    dist.init_process_group("gloo")
    print(dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
