import argparse
import os

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--omp", dest="threads", type=int)
    args = parser.parse_args()
    per_node = torch.cuda.device_count()
    os.environ["CUDA_VISIBLE_DEVICES"] = args.gpu  # expect: DC210
    os.environ["WORLD_SIZE"] = per_node * args.nodes  # expect: DC210
    os.environ["RANK"] = int(os.environ["SLURM_PROCID"]) + 0  # expect: DC210
    os.environ["OMP_NUM_THREADS"] = args.threads  # expect: DC210
    dist.init_process_group("gloo")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
