"""Only what launchers set decides about ranks; a test for absence next to it may be right for the launcher in use."""

import os

import torch.distributed as dist

dist.init_process_group("gloo")
if os.getenv("WITH_PROCESSES") == 0:  # expect: DC209=info
    print("one process")
if os.environ.get("NCCL_TRIES", "0") == 0:  # expect: DC209=warning
    print("no tries")
if "NODE_RANK" not in os.environ or os.environ["NODE_RANK"] == 0:  # expect: DC209=warning
    print("first node")
if os.environ.get("RANK") is None or os.environ.get("RANK") == 0:  # expect: DC209=warning
    print("first rank")
if os.environ.get("RANK") == 0:  # expect: DC209
    print("first rank")
