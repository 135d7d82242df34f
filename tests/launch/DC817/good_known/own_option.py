from dataclasses import dataclass

from transformers import HfArgumentParser, TrainingArguments


@dataclass
class DataArguments:
    evaluation_strategy: str = "no"


data, training = HfArgumentParser((DataArguments, TrainingArguments)).parse_args_into_dataclasses()
print(training.local_rank)
