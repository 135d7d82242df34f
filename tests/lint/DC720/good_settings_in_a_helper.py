"""Helpers that write plain files for ranks: files of each rank, temporary ones, guarded ones, and those of a tool."""

import argparse
import json
import os
import tempfile

import torch
import torch.distributed as dist


def write_record(folder, record):
    with open(os.path.join(folder, "record.json"), "w") as file:
        json.dump(record, file)


def write_to(path, record):
    with open(path, "w") as file:
        json.dump(record, file)


def write_own(options, record):
    with open(os.path.join(options.folder, f"part{options.local_rank}.json"), "w") as file:
        json.dump(record, file)


def write_scratch(record):
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "record.json"), "w") as file:
        json.dump(record, file)


def write_on_first(options, record):
    if dist.get_rank() != 0:
        return
    with open(os.path.join(options.folder, "summary.json"), "w") as file:
        json.dump(record, file)


def convert(options):
    """A tool: it runs in one process."""
    with open(os.path.join(options.folder, "converted.json"), "w") as file:
        json.dump(vars(options), file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="out")
    parser.add_argument("--local-rank", "--local_rank", type=int, default=0)
    options = parser.parse_args()
    torch.cuda.set_device(options.local_rank)
    dist.init_process_group("nccl")
    own = os.path.join(options.folder, str(dist.get_rank()))
    os.makedirs(own, exist_ok=True)
    write_record(own, {"step": 1})
    write_to(f"{options.folder}/log_{dist.get_rank()}.json", {"step": 1})
    write_own(options, {"step": 1})
    write_scratch({"step": 1})
    write_on_first(options, {"step": 1})
    if dist.get_rank() == 0:
        write_record(options.folder, {"step": 1})
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
