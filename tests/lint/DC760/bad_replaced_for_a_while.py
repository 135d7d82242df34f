import torch.distributed as dist


def with_another(output, tensor, other):
    kept = dist._all_gather_base  # expect: DC760
    dist._all_gather_base = other
    dist.barrier()
    dist._all_gather_base = kept


def gather(output, tensor):
    return dist._all_gather_base(output, tensor)  # expect: DC760


def scatter(output, tensor, manager, is_new):
    if is_new:
        manager.register_patch("torch.distributed._reduce_scatter_base", dist.reduce_scatter_tensor)
    return dist._reduce_scatter_base(output, tensor)  # expect: DC760
