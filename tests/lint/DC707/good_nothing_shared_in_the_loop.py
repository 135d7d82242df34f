import time

import torch
import torch.distributed as dist


def refine(value: torch.Tensor) -> torch.Tensor:
    begin = time.monotonic()
    while True:
        value = value - 0.1 * value
        if value.abs().max() < 1e-3 or time.monotonic() - begin > 1:
            break
    for row in value:
        if row.isnan().any():
            continue
        print(row.item())
    dist.all_reduce(value)
    return value


if __name__ == "__main__":
    dist.init_process_group("gloo")
    refine(torch.rand(3))
    dist.destroy_process_group()
