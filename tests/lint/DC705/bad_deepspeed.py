import argparse

import deepspeed
import torch
import torch.distributed as dist


def train(args: argparse.Namespace, network: torch.nn.Module, batches: list) -> None:
    deepspeed.init_distributed()
    engine, optimizer, _, _ = deepspeed.initialize(args=args, model=network, model_parameters=network.parameters())
    for batch in batches:
        loss = engine(batch).mean()
        engine.backward(loss)
        engine.step()
    if dist.get_rank() == 0:
        engine.save_checkpoint(args.output)  # expect: DC705
