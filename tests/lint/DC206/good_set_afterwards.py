"""After the group, but before anything needs a device."""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_node_local_rank())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
