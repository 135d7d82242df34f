from dataclasses import dataclass

from transformers import HfArgumentParser


@dataclass
class TrainingArguments:
    epochs: int = 3


(training,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
print(training.local_rank)
