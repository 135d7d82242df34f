"""The framework guards what is saved through it, but no file that the program opens."""

import argparse
import json
import os

import torch
from accelerate import Accelerator


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="out")
    options = parser.parse_args()
    accelerator = Accelerator()
    model = accelerator.prepare(torch.nn.Linear(4, 4))
    loss = model(torch.randn(2, 4, device=accelerator.device)).sum()
    with open(os.path.join(options.output, "results.json"), "w") as file:  # expect: DC720
        json.dump({"loss": loss.item()}, file)
    if accelerator.is_main_process:
        with open(os.path.join(options.output, "summary.json"), "w") as file:
            json.dump({"loss": loss.item()}, file)
    with open(os.path.join(options.output, f"loss{accelerator.process_index}.json"), "w") as file:
        json.dump({"loss": loss.item()}, file)


if __name__ == "__main__":
    main()
