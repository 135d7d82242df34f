"""A return after an error message leaves the others alone; an end of the process does, until the timeout."""

import logging
import os
import sys

import torch.distributed as dist


def check(folder):
    if dist.get_rank() == 0:
        if os.path.exists(folder):
            print("Error. The folder exists.")
            return -1
    dist.barrier()  # expect: DC702=warning
    return 0


def end(folder):
    if dist.get_rank() == 0:
        if os.path.exists(folder):
            logging.error("the folder exists")
            sys.exit()
    dist.barrier()  # expect: DC702=warning


def wait(folder):
    if dist.get_rank() == 0:
        if os.path.exists(folder):
            return
    try:
        dist.barrier()  # expect: DC702=warning
    except RuntimeError:
        raise


def main(folder):
    dist.init_process_group("gloo")
    check(folder)
    end(folder)
    wait(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main("runs")
