"""The loop ends at a number of steps, the schedule has that length, and Accelerate steps it once for each process."""

import argparse

import torch
from accelerate import Accelerator
from transformers import get_linear_schedule_with_warmup


def main(model, loader):
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-train-steps", type=int, default=400)
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision="bf16")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = get_linear_schedule_with_warmup(  # expect: DC765=warning
        optimizer, num_warmup_steps=20, num_training_steps=args.max_train_steps
    )
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    completed = 0
    for batch in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            completed += 1
        if completed >= args.max_train_steps:
            break


if __name__ == "__main__":
    main(torch.nn.Linear(2, 1), [])
