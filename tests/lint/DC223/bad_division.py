import os

import torch.distributed as dist


def mean(total):
    dist.all_reduce(total)
    return total / dist.get_rank()  # expect: DC223


def main(batch_size, total):
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    per_rank = batch_size // local_rank  # expect: DC223
    total = mean(total)
    dist.destroy_process_group()
    return per_rank, total
