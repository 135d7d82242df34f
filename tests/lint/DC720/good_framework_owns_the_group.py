import torch
from accelerate import Accelerator


def main():
    accelerator = Accelerator()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    for _ in range(10):
        loss = model(torch.randn(2, 4, device=accelerator.device)).sum()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.wait_for_everyone()
    weights = accelerator.get_state_dict(model)
    accelerator.save(weights, "model.pt")
    accelerator.save_state("state")
    unwrapped = accelerator.unwrap_model(model)
    if accelerator.is_main_process:
        torch.save(unwrapped.state_dict(), "plain.pt")


if __name__ == "__main__":
    main()
