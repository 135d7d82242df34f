import os

import torch
from torch.distributed import destroy_process_group, init_process_group


def join_group(url, rank, size):
    init_process_group("gloo", init_method=url, rank=rank, world_size=size)  # expect: DC104


def train(config):
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    join_group("tcp://" + config["master"], rank, int(os.environ["WORLD_SIZE"]))
    destroy_process_group()


if __name__ == "__main__":
    import json

    with open("config.json") as file:
        train(json.load(file))
