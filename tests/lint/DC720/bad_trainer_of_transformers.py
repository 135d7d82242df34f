"""A program of transformers has several ranks if its launcher starts several: info."""

import json
import os

from transformers import HfArgumentParser, Trainer, TrainingArguments


def keep(path, metrics):
    with open(path, "w") as file:  # expect: DC720=info
        json.dump(metrics, file)


def main(model, train_set):
    (options,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
    print("local rank", options.local_rank)
    trainer = Trainer(model=model, args=options, train_dataset=train_set)
    result = trainer.train()
    with open(os.path.join(options.output_dir, "notes.txt"), "w") as file:  # expect: DC720=info
        file.write(str(result))
    keep(os.path.join(options.output_dir, "metrics.json"), result.metrics)
    if trainer.is_world_process_zero():
        with open(os.path.join(options.output_dir, "summary.json"), "w") as file:
            json.dump(result.metrics, file)
    with open(os.path.join(options.output_dir, f"part{options.process_index}.json"), "w") as file:
        json.dump(result.metrics, file)


if __name__ == "__main__":
    main(None, None)
