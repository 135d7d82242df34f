"""Without LOCAL_RANK this raises; a fallback makes the script start by itself as well."""

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(dist.get_node_local_rank())  # expect: DC220
    dist.init_process_group("nccl")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
