import os
from datetime import timedelta

import torch
import torch.distributed as dist
from datasets import load_dataset, load_from_disk
from transformers import AutoTokenizer


def tokenize(examples: dict) -> dict:
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    return tokenizer(examples["text"])


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", timeout=timedelta(hours=2))
    if dist.get_rank() == 0:
        raw = load_dataset("wikitext", "wikitext-103-raw-v1", split="train")
        raw.map(tokenize, batched=True).save_to_disk("tokens")
    dist.barrier()
    print(len(load_from_disk("tokens")))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
