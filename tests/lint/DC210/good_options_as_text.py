import argparse
import os

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", default="0")
    parser.add_argument("--gpus", type=int, nargs="+")
    parser.add_argument("--port", type=int, default=12355)
    parser.add_argument("--threads", type=str, default="4")
    args = parser.parse_args()
    args.port = str(args.port)
    os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu
    os.environ["MASTER_PORT"] = args.port
    os.environ["OMP_NUM_THREADS"] = args.threads
    os.environ["WORLD_SIZE"] = str(torch.cuda.device_count() * 2)
    os.environ["PORTS"] = "12355," * 2 + "12356"
    os.environ["RANKS"] = "rank " + str(len(args.gpus)) + os.environ.get("LOCAL_RANK", "")


if __name__ == "__main__":
    main()
