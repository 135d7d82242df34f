from accelerate import Accelerator
from datasets import load_dataset
from transformers import AutoTokenizer


def main() -> None:
    accelerator = Accelerator()
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    raw = load_dataset("wikitext", "wikitext-103-raw-v1", split="train")
    with accelerator.main_process_first():
        tokens = raw.map(lambda examples: tokenizer(examples["text"]), batched=True)
    accelerator.wait_for_everyone()
    accelerator.print(len(tokens))


if __name__ == "__main__":
    main()
