import torch.distributed as dist


def average(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, async_op=True)  # expect: DC713
        parameter.grad /= dist.get_world_size()
