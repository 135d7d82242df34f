"""A function that no job of several ranks is known to call."""

import os
import shutil


def clean(folder: str) -> None:
    if os.path.exists(folder):
        shutil.rmtree(folder)


if __name__ == "__main__":
    clean("out")
