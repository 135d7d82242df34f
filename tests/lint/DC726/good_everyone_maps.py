import os

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
    dist.init_process_group("nccl")
    raw = load_dataset("wikitext", "wikitext-103-raw-v1", split="train")
    tokens = raw.map(tokenize, batched=True)
    dist.barrier()
    if dist.get_rank() == 0:
        print(len(tokens), len(load_from_disk("other")))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
