import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Trainer:
    def __init__(self, options):
        self.options = options
        self.best = 0.0
        self.model = DDP(torch.nn.Linear(4, 4).cuda(), device_ids=[options.local_rank])

    def train(self):
        save_to_disk = dist.get_rank() == 0
        for step in range(1000):
            self.model(torch.randn(2, 4, device="cuda")).sum().backward()
            if step % 100 == 0 and save_to_disk:
                keep(self.model, self.options, is_best=False)
            if step % 500 == 0:
                self.validate(step / 1000)

    def validate(self, score):
        is_best = score > self.best
        self.best = max(score, self.best)
        # this one was overlooked
        keep(self.model, self.options, is_best)


def keep(model, options, is_best):
    name = "best.pth" if is_best else "last.pth"
    torch.save(model.module.state_dict(), os.path.join(options.save_dir, name))  # expect: DC720


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--save-dir", default="out")
    options = parser.parse_args()
    options.local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(options.local_rank)
    dist.init_process_group(backend="nccl")
    Trainer(options).train()
    dist.destroy_process_group()
