import torch
import torch.distributed as dist

GROUPS = {}


def reduce(tensor, group=None):
    dist.all_reduce(tensor, group=group)


def reduce_in(tensor, number):
    dist.all_reduce(tensor, group=GROUPS[number])


def main():
    dist.init_process_group("gloo")
    GROUPS[0] = dist.new_group()
    tensor = torch.ones(1)
    dist.all_reduce(tensor, group=dist.group.WORLD)
    reduce(tensor)
    reduce(tensor, GROUPS[0])
    reduce_in(tensor, 0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
