import torch
import torch.distributed as dist


def make_group(ranks: list) -> dist.ProcessGroup:
    return dist.new_group(ranks=ranks)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank % 2 == 0:
        even = make_group(list(range(0, dist.get_world_size(), 2)))  # expect: DC706
        dist.all_reduce(torch.ones(1), group=even)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
