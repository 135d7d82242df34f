import json
import os

import torch.distributed as dist


class Vocabulary:
    def __init__(self, folder: str, main: bool) -> None:
        self.path = os.path.join(folder, "vocabulary.json")
        if main:
            with open(self.path, "w") as file:
                json.dump({"a": 1}, file)
        with open(self.path) as file:  # expect: DC724
            self.words = json.load(file)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    Vocabulary("data", dist.get_rank() == 0)
    dist.destroy_process_group()
