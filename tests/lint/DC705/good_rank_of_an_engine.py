import argparse

import deepspeed
import torch


def main(args, data):
    engine, _, loader, _ = deepspeed.initialize(args=args, model=torch.nn.Linear(8, 8), training_data=data)
    for step, batch in enumerate(loader):
        loss = engine(batch).mean()
        engine.backward(loss)
        engine.step()
        if step % 100 == 0:
            engine.save_checkpoint("out", step)
            if engine.local_rank == 0:
                print(loss.item())
    if engine.world_size > 1:
        engine.save_checkpoint("out", "last")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=-1)
    main(deepspeed.add_config_arguments(parser).parse_args(), [torch.randn(8) for _ in range(1000)])
