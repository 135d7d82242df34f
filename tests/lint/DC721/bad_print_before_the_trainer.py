from datasets import load_dataset
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

(options,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
train_set = load_dataset("text", data_files="train.txt")["train"]
print(train_set)  # expect: DC721=info
print(options.local_rank)
Trainer(model=AutoModelForCausalLM.from_pretrained("gpt2"), args=options, train_dataset=train_set).train()
