import argparse
import os

from datasets import load_dataset
from transformers import AutoTokenizer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="tokens")
    args = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    raw = load_dataset("wikitext", "wikitext-103-raw-v1", split="train")
    if not os.path.exists(args.out):
        raw.map(lambda examples: tokenizer(examples["text"]), batched=True).save_to_disk(args.out)


if __name__ == "__main__":
    main()
