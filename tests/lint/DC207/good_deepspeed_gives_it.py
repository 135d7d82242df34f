import argparse

import deepspeed


def main(model, dataset):
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    parser = deepspeed.add_config_arguments(parser)
    args = parser.parse_args()
    engine, _, loader, _ = deepspeed.initialize(args=args, model=model, training_data=dataset)
    for batch in loader:
        loss = engine(batch.to(engine.local_rank))
        engine.backward(loss)
        engine.step()
