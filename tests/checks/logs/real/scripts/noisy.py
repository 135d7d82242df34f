"""A healthy training whose log looks bad: warnings, a caught traceback, progress bars."""

import logging
import sys
import time
import traceback
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        import flash_attention_kernels
    except ImportError:
        logging.getLogger("ops").error("flash_attention_kernels is not installed, falling back to eager attention")
        traceback.print_exc()
    else:
        print(flash_attention_kernels)
    warnings.warn("lr_scheduler.step() before optimizer.step(): an error in your training loop?", stacklevel=1)
    model = DistributedDataParallel(torch.nn.Linear(8, 1), find_unused_parameters=True)
    for step in range(10):
        model(torch.randn(4, 8)).sum().backward()
        if rank == 0:
            done = "#" * (step + 1)
            print(
                f"\rtrain {10 * (step + 1):3d}%|{done:10}| {step + 1}/10 [00:0{step}<00:01, 9.8it/s]",
                end="",
                file=sys.stderr,
            )
            time.sleep(0.01)
    dist.barrier()
    if rank == 0:
        print("\nepoch 0 error 0.0312 failed samples: 0 timeout: none", flush=True)
        print("training done", flush=True)
    dist.destroy_process_group()
    # the model holds the group: where its last collective is still being cleaned up, its end may wait for ever (2.13)
    time.sleep(0.3)


if __name__ == "__main__":
    main()
