import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(batches: list) -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(4, 1))
    for batch in batches:
        loss = model(batch).mean()
        loss.backward()
        shared = loss.detach().clone()
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        if shared.item() < 1e-4:
            break
        bad = torch.tensor([float(torch.isnan(loss))])
        dist.all_reduce(bad)
        if bad.item() > 0:
            continue
    dist.destroy_process_group()


if __name__ == "__main__":
    train([torch.rand(2, 4)])
