"""An option with "process" in its name that is about data guards nothing."""

import os

from accelerate import Accelerator
from transformers import AutoFeatureExtractor, HfArgumentParser

from settings import Settings


def main():
    (options,) = HfArgumentParser((Settings,)).parse_args_into_dataclasses()
    accelerator = Accelerator()
    extractor = AutoFeatureExtractor.from_pretrained("base")
    if options.preprocessing_only:
        return
    for step in range(10):
        folder = os.path.join(options.output_dir, f"checkpoint-{step}")
        accelerator.save_state(output_dir=folder)
        extractor.save_pretrained(folder)  # expect: DC720=warning


if __name__ == "__main__":
    main()
