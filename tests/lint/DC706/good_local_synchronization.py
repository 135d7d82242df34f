import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    members = [rank // 2 * 2, rank // 2 * 2 + 1]
    pair = dist.new_group(members, use_local_synchronization=True)
    if rank < 2:
        first = dist.new_group([0, 1], use_local_synchronization=True)
        dist.all_reduce(torch.ones(1), group=first)
    dist.all_reduce(torch.ones(1), group=pair)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
