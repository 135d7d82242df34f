import torch.distributed as dist


def main(count):
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    share = count / (rank + 1)
    if rank > 0:
        share = count / rank
    fraction = rank / dist.get_world_size()
    try:
        odd = count / rank
    except ZeroDivisionError:
        odd = 0
    print(rank, share, fraction, odd)
    dist.destroy_process_group()
