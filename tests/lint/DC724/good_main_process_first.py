import os

from accelerate import Accelerator


def main(folder):
    accelerator = Accelerator()
    if accelerator.is_main_process:
        os.makedirs(folder, exist_ok=True)
    with accelerator.main_process_first():
        names = ["a"]
    return names, os.listdir(folder)


main("out")
