import torch.distributed as dist


def setup():
    dist.init_process_group("nccl")  # expect: DC206


def cleanup():
    dist.destroy_process_group()
