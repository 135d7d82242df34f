"""Masking by the global rank leaves the second node without a GPU."""

import os

rank = int(os.environ["RANK"])
os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)  # expect: DC201=info

import torch  # noqa: E402

print(torch.ones(1, device="cuda"))
