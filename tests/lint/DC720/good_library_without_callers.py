import torch
import torch.distributed as dist


def reduce_mean(tensor):
    """Average over all ranks."""
    dist.all_reduce(tensor)
    return tensor / dist.get_world_size()


def save_checkpoint(path, model, optimizer):
    """Who calls this decides which rank writes."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
