import os

import torch
import torch.distributed as dist
from datasets import load_dataset, load_from_disk
from transformers import AutoTokenizer


def tokenize(examples: dict) -> dict:
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    return tokenizer(examples["text"])


def is_long(example: dict) -> bool:
    return len(example["text"]) > 200


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    if dist.get_rank() != 0:
        dist.barrier()
    raw = load_dataset("wikitext", "wikitext-103-raw-v1", split="train")
    if dist.get_rank() == 0:
        raw = raw.filter(is_long).map(tokenize, batched=True)  # expect: DC726
        raw.save_to_disk("tokens")
        dist.barrier()
    print(len(load_from_disk("tokens")))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
