import os

import torch
import torch.distributed as dist
from trainer import Trainer

if __name__ == "__main__":
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    trainer = Trainer(local_rank)
    for batch in torch.rand(4, 4, 4):
        trainer.step(batch)
    dist.destroy_process_group()
