import torch.distributed


def join_group():
    torch.distributed.init_process_group(backend="nccl", init_method="tcp://localhost:10000")  # expect: DC744
    return torch.distributed.get_rank()
