import argparse
import os

import mlflow
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mlflow", action="store_true")
    args = parser.parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    if args.mlflow:
        # the flag is the same on all ranks
        mlflow.start_run(run_name="baseline")  # expect: DC721=warning
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
