import torch
import torch.distributed as dist

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
for _ in range(1000):
    model(torch.randn(32, 8)).mean().backward()
dist.destroy_process_group()
