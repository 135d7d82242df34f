import argparse

import torch
import torch.distributed as dist


def train(model: torch.nn.Module, args: argparse.Namespace, batches: list) -> None:
    step = 0
    for epoch in range(args.epochs):
        for number, batch in enumerate(batches):
            if number < args.skip:
                continue
            loss = model(batch).mean()
            loss.backward()
            dist.all_reduce(loss)
            step += 1
            if step % args.accumulate != 0:
                continue
            if args.max_steps > 0 and step >= args.max_steps:
                break
        if step >= args.max_steps or args.dry_run:
            break


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--max-steps", type=int, default=10)
    parser.add_argument("--dry-run", action="store_true")
    dist.init_process_group("gloo")
    train(torch.nn.Linear(4, 1), parser.parse_args(), [torch.rand(2, 4)])
    dist.destroy_process_group()
