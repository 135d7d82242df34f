import os

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    is_main = os.environ["RANK"] == "0"
    statistics = torch.tensor([2.0, 3.0])
    dist.all_reduce(statistics)
    if is_main:
        torch.save(statistics, "statistics.pt")
    dist.barrier()
    loaded = torch.load("statistics.pt")
    print(loaded.tolist())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
