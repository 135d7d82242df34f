import json
import os

from accelerate import Accelerator


def build(folder: str) -> dict:
    accelerator = Accelerator()
    if accelerator.is_main_process:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "index.json"), "w") as file:
            json.dump({"rows": 3}, file)
    accelerator.wait_for_everyone()
    with open(os.path.join(folder, "index.json")) as file:
        return json.load(file)


def build_first(accelerator: Accelerator, path: str) -> dict:
    with accelerator.main_process_first():
        if accelerator.is_main_process:
            with open(path, "w") as file:
                json.dump({}, file)
    with open(path) as file:
        return json.load(file)
