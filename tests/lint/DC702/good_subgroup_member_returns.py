import torch
import torch.distributed as dist


def average_in_group(value: torch.Tensor, members: list, group: dist.ProcessGroup) -> torch.Tensor:
    if dist.get_rank() not in members:
        return value
    dist.all_reduce(value, group=group)
    return value / len(members)


def average_if_member(value: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
    if dist.get_rank(group) < 0:
        return value
    dist.broadcast(value, group_src=0, group=group)
    return value


if __name__ == "__main__":
    dist.init_process_group("gloo")
    first_two = dist.new_group([0, 1])
    average_in_group(torch.ones(1), [0, 1], first_two)
    average_if_member(torch.ones(1), first_two)
    dist.destroy_process_group()
