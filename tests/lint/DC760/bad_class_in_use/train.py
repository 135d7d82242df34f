import torch.distributed as dist

from .loss import Loss

dist.init_process_group("gloo")
criterion = Loss()
