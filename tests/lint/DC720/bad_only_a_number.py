import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for epoch in range(10):
    torch.save({"epoch": epoch}, "progress.pt")  # expect: DC720=warning
dist.destroy_process_group()
