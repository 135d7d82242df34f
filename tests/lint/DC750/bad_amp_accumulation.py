import os

import torch
import torch.distributed as dist
from torch.nn import parallel

ACCUMULATE = 4


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    model = parallel.DistributedDataParallel(torch.nn.Linear(16, 4).to(device), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(100):
        with torch.autocast("cuda", dtype=torch.float16):
            outputs = model.module(torch.randn(8, 16, device=device))  # expect: DC750
            loss = outputs.sum() / ACCUMULATE
        scaler.scale(loss).backward()
        if (step + 1) % ACCUMULATE == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
