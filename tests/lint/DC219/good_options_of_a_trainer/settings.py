from dataclasses import dataclass, field

from transformers import Seq2SeqTrainingArguments


@dataclass
class Settings(Seq2SeqTrainingArguments):
    tag: str = field(default="none")
