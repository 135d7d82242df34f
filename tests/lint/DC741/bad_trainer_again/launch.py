import os

import torch
import torch.distributed as dist

from trainer import Trainer


def main(model):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    trainer = Trainer(model)  # expect: DC741
    trainer.fit()
    dist.destroy_process_group()
