"""The rank lies in a table of settings."""

import os

import torch

settings = {"rank": int(os.environ["RANK"]), "epochs": 3}


def main():
    torch.cuda.set_device(settings["rank"])  # expect: DC201=info
    print(torch.cuda.current_device(), settings["epochs"])


if __name__ == "__main__":
    main()
