"""The trainer next to it runs on several nodes."""

import os

import lightning.pytorch as pl
import torch


def fit(model, loader, nodes):
    trainer = pl.Trainer(accelerator="gpu", devices=8, num_nodes=nodes)
    trainer.fit(model, loader)


def probe():
    return torch.zeros(1, device=f"cuda:{int(os.environ['RANK'])}")  # expect: DC201
