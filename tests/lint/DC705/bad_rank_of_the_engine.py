import argparse

import deepspeed
import torch


def train(args: argparse.Namespace, network: torch.nn.Module, batches: list) -> None:
    engine, optimizer, _, _ = deepspeed.initialize(args=args, model=network, model_parameters=network.parameters())
    for step, batch in enumerate(batches):
        loss = engine(batch.to(engine.local_rank)).mean()
        engine.backward(loss)
        engine.step()
        if engine.global_rank == 0 and step % 1000 == 0:
            engine.save_checkpoint(args.output, tag=f"step-{step}")  # expect: DC705
    if engine.local_rank == 0:
        engine.save_checkpoint(args.output)  # expect: DC705
