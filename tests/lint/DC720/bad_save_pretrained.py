import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoModelForSequenceClassification


def main(output="finetuned"):
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased").cuda(local_rank)
    ddp = DDP(model, device_ids=[local_rank])
    tokens = torch.ones(1, 8, dtype=torch.long, device=local_rank)
    ddp(tokens, labels=torch.zeros(1, dtype=torch.long, device=local_rank)).loss.backward()
    ddp.module.save_pretrained(output)  # expect: DC720=warning
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
