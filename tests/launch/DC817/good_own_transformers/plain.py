from src.transformers.training_args import TrainingArguments as Own
from transformers import HfArgumentParser, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
print(args.local_rank, Own)
