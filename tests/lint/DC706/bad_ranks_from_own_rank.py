"""There is no branch: every rank passes a list of its own."""

import torch
import torch.distributed as dist


def node_group(per_node: int) -> dist.ProcessGroup:
    first = dist.get_rank() // per_node * per_node
    ranks = list(range(first, first + per_node))
    return dist.new_group(ranks)  # expect: DC706


if __name__ == "__main__":
    dist.init_process_group("gloo")
    value = torch.ones(1)
    dist.all_reduce(value, group=node_group(4))
    dist.destroy_process_group()
