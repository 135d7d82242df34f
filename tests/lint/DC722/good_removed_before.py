"""All ranks remove a folder before they create it: who finds it depends on the order of the ranks."""

import os
import shutil

import torch.distributed as dist


class Evaluator:
    def __init__(self, folder):
        self.folder = folder

    def evaluate(self):
        path = os.path.join(self.folder, "voc")
        if os.path.exists(path):
            shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)  # expect: DC722=info
        return path


def main():
    dist.init_process_group("gloo")
    print(Evaluator("out").evaluate())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
