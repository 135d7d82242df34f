import argparse

import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    args = parser.parse_args()
    if args.distributed:
        try:
            dist.init_process_group("gloo")  # expect: DC747
        except (RuntimeError, ValueError) as error:
            print("going on alone:", error)
            args.distributed = False
    print(args.distributed)


if __name__ == "__main__":
    main()
