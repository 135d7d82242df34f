import argparse

from pytorch_lightning import Trainer


def train():
    Trainer(devices=4).fit(None)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", action="store_true")
    args = parser.parse_args()
    if args.train:
        train()


if __name__ == "__main__":
    main()
