"""Scratch belongs to one node: there one writer a node is right."""

import os
import tempfile

import torch

local_rank = int(os.environ["LOCAL_RANK"])
if local_rank == 0:
    torch.save(torch.ones(4), "/tmp/cache.pt")
    torch.save(torch.ones(4), os.path.join(os.environ["SLURM_TMPDIR"], "cache.pt"))
    torch.save(torch.ones(4), os.path.join(tempfile.gettempdir(), "other.pt"))
