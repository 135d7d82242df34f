import argparse

import deepspeed
import torch
import torch.distributed as dist


def train(args: argparse.Namespace, network: torch.nn.Module) -> None:
    deepspeed.init_distributed()
    engine, *_ = deepspeed.initialize(args=args, model=network)
    engine.save_checkpoint(args.output)
    if dist.get_rank() == 0:
        print("saved", engine.global_steps)


class Notes:
    def save_checkpoint(self, path: str) -> None:
        print(path)


def note(path: str) -> None:
    if dist.get_rank() == 0:
        Notes().save_checkpoint(path)
