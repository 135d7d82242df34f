import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    count = torch.ones(1)
    if dist.get_rank() == 0:
        dist.all_reduce(count, group=dist.group.WORLD)  # expect: DC701
        dist.barrier(group=None)  # expect: DC701
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
