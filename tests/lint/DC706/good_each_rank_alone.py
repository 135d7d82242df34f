"""A group of one rank: no rank waits for another one in it, so that each rank can make its own."""

import torch.distributed as dist


def global_rank():
    if not dist.is_initialized():
        return 0
    return dist.get_global_rank(dist.group.WORLD, dist.get_rank())


def main():
    dist.init_process_group("gloo")
    rank = global_rank()
    model_group = dist.new_group(ranks=[rank])
    data_group = dist.new_group(ranks=list(range(dist.get_world_size())))
    return model_group, data_group


if __name__ == "__main__":
    main()
