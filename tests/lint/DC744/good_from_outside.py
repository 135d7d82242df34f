import argparse
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--master-port", default="12355")
    parser.add_argument("--dist-url", default="env://")
    args = parser.parse_args()
    os.environ["MASTER_PORT"] = args.master_port
    os.environ["MASTER_ADDR"] = os.environ["SLURM_LAUNCH_NODE"]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", init_method=args.dist_url)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
