"""One rank cannot read its configuration, before there is a group."""

import json
import os
from datetime import timedelta


def main() -> None:
    """Run one rank."""
    if os.environ["RANK"] == "2":
        json.loads("{'lr': 0.1}")

    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(seconds=4))
    dist.barrier()


if __name__ == "__main__":
    main()
