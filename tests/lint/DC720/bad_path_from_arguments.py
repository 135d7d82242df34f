import argparse
import os

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def save_checkpoint(model, optimizer, step, path):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, path)  # expect: DC720


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="out")
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    model = DDP(torch.nn.Linear(16, 4).to(device))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(args.steps):
        optimizer.zero_grad()
        model(torch.randn(2, 16, device=device)).square().mean().backward()
        optimizer.step()
        if step % 100 == 0:
            save_checkpoint(model.module, optimizer, step, os.path.join(args.output, "last.ckpt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
