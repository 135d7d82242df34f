"""Traffic beside which something else is measured: nobody reads the tensors."""
import torch
import torch.distributed as dist


def compute_beside_traffic(rounds):
    buffer = torch.ones(1 << 20, device="cuda")
    parts = [torch.empty(1 << 20, device="cuda") for _ in range(dist.get_world_size())]
    left = torch.rand(4096, 4096, device="cuda")
    for _ in range(rounds):
        dist.all_gather(parts, buffer, async_op=True)
        dist.all_reduce(buffer, async_op=True)
        torch.mm(left, left)
    return left
