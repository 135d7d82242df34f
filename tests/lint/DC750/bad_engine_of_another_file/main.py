import os

import torch
import torch.distributed as dist
from engine import train_one_epoch
from misc import NativeScaler


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(16, 4).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = NativeScaler()
    for epoch in range(10):
        train_one_epoch(model, optimizer, scaler, epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
