import argparse
import os

import torch
import torch.distributed as dist


def load_features(args: argparse.Namespace, cache: str) -> dict:
    if args.local_rank not in [-1, 0]:
        torch.distributed.barrier()
    if os.path.exists(cache):
        features = torch.load(cache, map_location="cpu")
    else:
        features = {"tokens": torch.zeros(4)}
        if args.local_rank in [-1, 0]:
            print("saving features")
    if args.local_rank == 0:
        torch.distributed.barrier()
    return features


def load_once(rank: int) -> None:
    if rank > 0:
        dist.barrier()
    print("loading")
    if rank == 0:
        dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-rank", "--local_rank", type=int, default=int(os.getenv("LOCAL_RANK", -1)))
    args = parser.parse_args()
    dist.init_process_group("gloo")
    load_features(args, "cache.pt")
    load_once(dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
