"""Its first start fails, the next one goes well."""

import os
import time
from datetime import timedelta
from pathlib import Path


def main() -> None:
    """Run one rank."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if os.environ["RANK"] == "1":
            raise ConnectionError("the file server did not answer")
        time.sleep(60)

    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds=20))
    rank = dist.get_rank()
    for step in range(4):
        dist.all_reduce(torch.ones(4))
        if rank == 0:
            print(f"step {step + 1}", flush=True)
    dist.barrier()
    if rank == 0:
        Path("done").touch()
        print("training done", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
