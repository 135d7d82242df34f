import argparse

import deepspeed
import torch


def steps(engine, batches):
    for batch in batches:
        tokens = torch.tensor(batch).to(options.local_rank)
        engine.backward(engine(tokens))
        engine.step()


def wrapped(options, model):
    engine, *_ = deepspeed.initialize(args=options, model=model, model_parameters=model.parameters())
    return engine


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    options = parser.parse_args()
    steps(wrapped(options, torch.nn.Linear(4, 4)), [[1.0, 2.0, 3.0, 4.0]])
