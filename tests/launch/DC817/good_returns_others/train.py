from transformers import HfArgumentParser, TrainingArguments

training, rest = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(return_remaining_strings=True)
print(training.local_rank)
