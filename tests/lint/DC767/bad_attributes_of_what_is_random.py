"""Attributes and methods of a path, an address and a class of the script give what they were made of."""

import argparse
import os
import random
import uuid
from pathlib import Path

import torch.distributed as dist


class Address:
    def __init__(self, port):
        self.port = port


def main():
    address = Address(random.randint(20000, 30000))
    os.environ["MASTER_PORT"] = str(address.port)  # expect: DC767
    store = Path("/shared", uuid.uuid4().hex).resolve()
    dist.init_process_group("gloo", init_method=store.as_uri(), rank=int(os.environ["RANK"]), world_size=4)  # expect: DC767
    options = argparse.Namespace(folder="run-{}".format(uuid.uuid4()).lower())
    os.makedirs(options.folder, exist_ok=True)  # expect: DC767=info
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
