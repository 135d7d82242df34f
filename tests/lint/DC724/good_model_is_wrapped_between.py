import os

import torch
from accelerate import Accelerator


def main(folder):
    accelerator = Accelerator()
    if accelerator.is_main_process:
        os.makedirs(folder, exist_ok=True)
    model = accelerator.prepare(torch.nn.Linear(2, 2))
    return model, os.listdir(folder)


main("out")
