import json
import os
import time
from pathlib import Path

import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


def main():
    rank, _ = init_distributed()
    path = Path("statistics.json")
    dist.barrier()
    if rank == 0:
        time.sleep(0.5)
        path.write_text(json.dumps({"mean": 0.5}))
    dist.barrier(async_op=True)
    statistics = json.loads(path.read_text())
    print(f"rank {rank}: {statistics}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
