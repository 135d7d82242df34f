import argparse
import os

import torch
import torch.distributed as dist


def setup(args):
    if "LOCAL_RANK" in os.environ:
        args.local_rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(args.local_rank)
        dist.init_process_group("nccl", init_method="env://")
    else:
        torch.cuda.set_device(args.gpu)
        dist.init_process_group("nccl", init_method=args.url, rank=args.node, world_size=args.nodes)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="tcp://node0:12800")
    parser.add_argument("--node", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--gpu", type=int, default=0)
    setup(parser.parse_args())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
