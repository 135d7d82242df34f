import os
from pathlib import Path

import torch
import torch.distributed as dist


def main(output="out"):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    os.makedirs(output, exist_ok=True)
    if not os.path.exists(output + "/images"):
        os.makedirs(output + "/images", 0o755, True)
    Path(output, "logs").mkdir(parents=True, exist_ok=True)
    value = torch.ones(1, device="cuda")
    dist.all_reduce(value)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
