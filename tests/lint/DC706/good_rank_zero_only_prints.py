import torch.distributed as dist


def build(size: int) -> list:
    groups = []
    rank = dist.get_rank()
    for first in range(0, dist.get_world_size(), size):
        ranks = range(first, first + size)
        groups.append(dist.new_group(ranks))
        if rank == 0:
            print("group", list(ranks))
        if rank not in ranks:
            continue
        print("rank", rank, "is a member")
    return groups


if __name__ == "__main__":
    dist.init_process_group("gloo")
    build(2)
    dist.destroy_process_group()
