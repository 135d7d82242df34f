"""Puts each rank on the GPU of its own number on this host."""

import torch
import torch.distributed as dist


def main():
    local_rank = dist.get_node_local_rank(fallback_rank=0)
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    print(f"local rank {local_rank} computes on {device}")


if __name__ == "__main__":
    main()
