"""The length is multiplied, computed from the loader, or the scheduler is not prepared, or not stepped for each process."""

import argparse
import math

import torch
from accelerate import Accelerator
from transformers import get_scheduler


def multiplied(args, model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = get_scheduler(
        "cosine", optimizer, num_warmup_steps=10, num_training_steps=args.steps * accelerator.num_processes
    )
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    run(accelerator, model, optimizer, loader, scheduler, args.steps)


def not_prepared(args, model, loader):
    accelerator = Accelerator()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = get_scheduler("cosine", optimizer, 10, args.steps)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    run(accelerator, model, optimizer, loader, scheduler, args.steps)


def once(args, model, loader):
    accelerator = Accelerator(step_scheduler_with_optimizer=False)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = get_scheduler("cosine", optimizer, 10, args.steps)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    run(accelerator, model, optimizer, loader, scheduler, args.steps)


def divided(args, model, loader):
    accelerator = Accelerator(split_batches=True)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = get_scheduler("cosine", optimizer, 10, args.steps)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    run(accelerator, model, optimizer, loader, scheduler, args.steps)


def of_the_loader(args, model, loader):
    accelerator = Accelerator()
    updates = math.ceil(len(loader) / args.accumulation)
    total = args.epochs * updates
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = get_scheduler("cosine", optimizer, 10, total)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    run(accelerator, model, optimizer, loader, scheduler, total)


def run(accelerator, model, optimizer, loader, scheduler, steps):
    done = 0
    for batch in loader:
        accelerator.backward(model(**batch).loss)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        done += 1
        if done >= steps:
            break


def main(model, loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--accumulation", type=int, default=1)
    args = parser.parse_args()
    for function in (multiplied, not_prepared, once, divided, of_the_loader):
        function(args, model, loader)


if __name__ == "__main__":
    main(torch.nn.Linear(2, 1), [])
