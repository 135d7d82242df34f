import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DataParallel, DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    args = parser.parse_args()
    model = torch.nn.Linear(16, 4)
    if args.distributed:
        local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local_rank)
        dist.init_process_group("nccl")
        model = DistributedDataParallel(model.cuda(), device_ids=[local_rank])
    else:
        model = DataParallel(model).cuda()  # expect: DC755
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        loss = model(torch.randn(64, 16, device="cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if args.distributed:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
