import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


@torch.inference_mode()
def evaluate(net: torch.nn.Module, batches: list[torch.Tensor]) -> float:
    net.eval()
    return sum(net(batch).mean().item() for batch in batches)


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = DDP(torch.nn.Linear(16, 4).cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    held_out = [torch.randn(8, 16, device="cuda") for _ in range(4)]
    for _ in range(100):
        loss = model(torch.randn(8, 16, device="cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            preview = model.module(held_out[0])
        print(preview.mean().item(), evaluate(model.module, held_out))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
