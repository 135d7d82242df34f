import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data.distributed import DistributedSampler


def main(data):
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    sampler_class = DistributedSampler if dist.is_initialized() else RandomSampler
    loader = DataLoader(data, batch_size=4, sampler=sampler_class(data))  # expect: DC730
    model = DDP(torch.nn.Linear(4, 4).cuda())
    for _ in range(10):
        for batch in loader:
            model(batch.cuda()).sum().backward()
    dist.destroy_process_group()
