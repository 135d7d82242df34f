import torch
from accelerate import Accelerator

accelerator = Accelerator(mixed_precision="bf16")


def evaluate(model: torch.nn.Module, batches: list) -> None:
    predictions = []
    for batch in batches:
        predictions.append(model(batch))
    if accelerator.is_main_process:
        everything = accelerator.gather_for_metrics(torch.cat(predictions))  # expect: DC701
        print(everything.mean())
