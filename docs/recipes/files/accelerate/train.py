"""A loop with Accelerate: the framework owns the group, the devices and the wrapping."""

import torch
from accelerate import Accelerator


def main():
    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    for batch in data:
        loss = model(batch).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.print(f"{accelerator.num_processes} processes, last loss {loss.item():.3f}")
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), "model.pt")


if __name__ == "__main__":
    main()
