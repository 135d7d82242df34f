import argparse

import deepspeed
import torch


def main(args, data):
    engine, _, loader, _ = deepspeed.initialize(args=args, model=torch.nn.Linear(8, 8), training_data=data)
    for step, batch in enumerate(loader):
        loss = engine(batch).mean()
        engine.backward(loss)
        engine.step()
        if engine.local_rank != 0:
            continue
        if step % 100 == 0:
            print(loss.item())
            engine.save_checkpoint("out", step)  # expect: DC705
    if engine.global_rank == 0:
        engine.save_checkpoint("out", "last")  # expect: DC705


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    main(deepspeed.add_config_arguments(parser).parse_args(), [torch.randn(8) for _ in range(1000)])
