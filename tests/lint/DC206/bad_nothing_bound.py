"""NCCL starts, and nobody has said which GPU is this rank's."""

import torch.distributed as dist


def main():
    dist.init_process_group("nccl")  # expect: DC206
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
