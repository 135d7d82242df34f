import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    members = [0, 1]
    group = None
    if dist.get_rank() in members:
        group = dist.new_group(members)  # expect: DC706
    value = torch.ones(1)
    if group is not None:
        dist.all_reduce(value, group=group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
