import os

import torch
import torch.distributed as dist


def run(steps: int, interval: int) -> None:
    is_master = int(os.environ["RANK"]) == 0
    seen = torch.zeros(1)
    for step in range(steps):
        seen += 1
        log_now = is_master and step % interval == 0
        if log_now:
            dist.all_reduce(seen)  # expect: DC701
            print(step, seen.item())


if __name__ == "__main__":
    dist.init_process_group("gloo")
    run(100, 10)
    dist.destroy_process_group()
