import os

import torch
import torch.distributed as dist
from datasets import load_dataset, load_from_disk
from transformers import AutoTokenizer


def tokenize(examples: dict) -> dict:
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    return tokenizer(examples["text"])


def prepare(folder: str) -> None:
    raw = load_dataset("wikitext", "wikitext-103-raw-v1", split="train")
    raw.map(tokenize, batched=True, num_proc=8).save_to_disk(folder)  # expect: DC726


def main() -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    if dist.get_rank() == 0:
        prepare("tokens")
    dist.barrier()
    dataset = load_from_disk("tokens")
    print(len(dataset))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
