import os

import torch
from helper import connect, disconnect


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    connect()
    disconnect()


if __name__ == "__main__":
    main()
