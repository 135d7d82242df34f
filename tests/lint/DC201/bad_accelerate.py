"""Accelerate's process_index counts over all nodes."""

import torch
from accelerate import Accelerator

accelerator = Accelerator()
device = torch.device(f"cuda:{accelerator.process_index}")  # expect: DC201=info
table = torch.zeros(4, device=device)
accelerator.print(table)
