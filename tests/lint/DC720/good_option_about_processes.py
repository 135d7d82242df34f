"""An option that is about processes may keep the other ranks away."""

import os

from accelerate import Accelerator
from transformers import AutoFeatureExtractor, HfArgumentParser

from settings import Settings


def main():
    (options,) = HfArgumentParser((Settings,)).parse_args_into_dataclasses()
    accelerator = Accelerator()
    extractor = AutoFeatureExtractor.from_pretrained("base")
    if not options.only_one_process:
        return
    for step in range(10):
        folder = os.path.join(options.output_dir, f"checkpoint-{step}")
        accelerator.save_state(output_dir=folder)
        extractor.save_pretrained(folder)


if __name__ == "__main__":
    main()
