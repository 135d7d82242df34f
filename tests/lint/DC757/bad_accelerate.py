import torch
from accelerate import Accelerator


def main(model, loader, loss_of):
    accelerator = Accelerator()
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(3):
        for batch in loader:
            accelerator.backward(loss_of(model(batch)))
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.is_main_process:
            scheduler.step(evaluate(accelerator.unwrap_model(model)))  # expect: DC757
        accelerator.wait_for_everyone()


def evaluate(model):
    with torch.no_grad():
        return model(torch.ones(1)).item()


if __name__ == "__main__":
    main(torch.nn.Linear(1, 1), [torch.ones(1)], torch.sum)
