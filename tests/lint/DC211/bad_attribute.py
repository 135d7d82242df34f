import argparse

import torch.distributed as dist


class Saver:
    def __init__(self, rank=None):
        self.rank = rank or dist.get_rank()  # expect: DC211

    def name(self, args):
        return f"part_{args.rank or dist.get_rank()}.pt"  # expect: DC211


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    print(Saver(args.rank).name(args))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
