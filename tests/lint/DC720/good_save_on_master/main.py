import argparse

import utils
import torch
from torch.nn.parallel import DistributedDataParallel as DDP


def main(args):
    utils.init_distributed_mode(args)
    model = torch.nn.Linear(4, 4).cuda()
    model_without_ddp = model
    if args.distributed:
        model = DDP(model, device_ids=[args.gpu])
        model_without_ddp = model.module
    for epoch in range(args.epochs):
        model(torch.ones(1, 4, device="cuda")).sum().backward()
        utils.save_on_master({"model": model_without_ddp.state_dict(), "epoch": epoch}, f"{args.output}/{epoch}.pth")
        utils.save_on_master({"model": model_without_ddp.state_dict(), "epoch": epoch}, f"{args.output}/checkpoint.pth")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--output", default=".")
    main(parser.parse_args())
