import torch.distributed as dist


def summed(tensor):
    return dist.all_reduce(tensor)  # expect: DC710


def log(loss, step):
    mean = summed(loss) / dist.get_world_size()
    print(step, mean)
