"""Each node writes a file of its own."""

import os
import socket

import torch

local_rank = int(os.environ["LOCAL_RANK"])
node = int(os.environ["GROUP_RANK"])
if local_rank == 0:
    torch.save(torch.ones(4), f"statistics-{node}.pt")
    torch.save(torch.ones(4), f"statistics-{socket.gethostname()}.pt")
