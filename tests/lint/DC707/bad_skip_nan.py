import math

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def train(batches: list) -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.Linear(4, 1))
    for batch in batches:
        loss = model(batch).mean()
        if torch.isnan(loss) or not math.isfinite(loss.item()):
            print("skipping")
            continue  # expect: DC707
        loss.backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    train([torch.rand(2, 4)])
