import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from tqdm import tqdm


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(16, 16).cuda(), device_ids=[local_rank])
    critic = DDP(torch.nn.Linear(16, 1).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.Adam(model.parameters())
    for step in tqdm(range(100), disable=dist.get_rank() != 0):
        images = torch.randn(4, 16, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            rebuilt = model.module(images)  # expect: DC750
            loss = F.mse_loss(rebuilt, images) - 0.1 * critic(rebuilt).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
