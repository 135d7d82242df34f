"""What enumerate() counts from the rank on differs between ranks."""

import torch
import torch.distributed as dist


def main(parts, folder="parts"):
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    for number, part in enumerate(parts, rank * len(parts)):
        torch.save(part, f"{folder}/{number}.pt")
    for number, part in enumerate(parts, start=dist.get_rank() * 1000):
        torch.save(part, f"{folder}/part{number}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main([])
