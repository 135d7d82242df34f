from dataclasses import dataclass

import transformers


@dataclass
class ModelArguments:
    model: str = "gpt2"


@dataclass
class TrainingArguments(transformers.TrainingArguments):
    cache_dir: str = ""


def main() -> None:
    parser = transformers.HfArgumentParser((ModelArguments, TrainingArguments))
    _, training_args = parser.parse_args_into_dataclasses()
    print(training_args.local_rank)


if __name__ == "__main__":
    main()
