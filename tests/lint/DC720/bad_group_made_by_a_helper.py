"""The group comes from a helper, so ranks are there for certain where the options are written."""

import argparse
import json
import os

import torch
import torch.distributed as dist


def set_up() -> int:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    return local_rank


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="out")
    args = parser.parse_args()
    if "WORLD_SIZE" in os.environ:
        set_up()
    with open(os.path.join(args.out, "config.json"), "w") as file:  # expect: DC720
        json.dump(vars(args), file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
