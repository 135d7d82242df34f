"""The program makes sure that all ranks fit on this host."""

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    if dist.get_world_size() > torch.cuda.device_count():
        raise RuntimeError("this script is for one host")
    torch.cuda.set_device(rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
