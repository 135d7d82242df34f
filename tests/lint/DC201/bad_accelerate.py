"""Accelerate's process_index counts over all nodes."""

import torch
from accelerate import Accelerator

accelerator = Accelerator()
device = torch.device(f"cuda:{accelerator.process_index}")  # expect: DC201
table = torch.zeros(4, device=device)
accelerator.print(table)
