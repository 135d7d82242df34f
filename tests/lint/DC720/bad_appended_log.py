import argparse
import json
import logging
import logging.handlers
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def main(args: argparse.Namespace) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    handler = logging.handlers.RotatingFileHandler(os.path.join(args.output, "run.log"), maxBytes=10000)  # expect: DC720=info
    logging.getLogger().addHandler(handler)
    model = DDP(torch.nn.Linear(8, 8).cuda(), device_ids=[local_rank])
    for epoch in range(args.epochs):
        loss = model(torch.randn(4, 8, device="cuda")).mean()
        loss.backward()
        with open(os.path.join(args.output, "log.txt"), mode="a", encoding="utf-8") as file:  # expect: DC720=info
            file.write(json.dumps({"epoch": epoch}) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="out")
    parser.add_argument("--epochs", type=int, default=10)
    main(parser.parse_args())
