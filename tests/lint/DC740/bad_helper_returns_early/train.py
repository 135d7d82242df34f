import argparse

import torch.distributed as dist
from setting_up import set_up


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--test", action="store_true")
    options = parser.parse_args()
    set_up(options)
    if options.test:
        print("testing")
        dist.barrier()  # expect: DC740=info


if __name__ == "__main__":
    main()
