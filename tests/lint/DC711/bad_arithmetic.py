import torch.distributed as dist


def log_loss(loss, step):
    dist.all_reduce(loss / dist.get_world_size())  # expect: DC711
    print(step, loss.item())


def log_mean(losses, step):
    dist.reduce(losses.mean(), dst=0)  # expect: DC711
    if dist.get_rank() == 0:
        print(step, losses.mean().item())
