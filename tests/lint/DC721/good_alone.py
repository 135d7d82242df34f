import torch
import wandb

wandb.init(project="digits")
model = torch.nn.Linear(4, 4)
for step in range(10):
    loss = model(torch.randn(2, 4)).sum()
    loss.backward()
    print(step, loss.item())
    wandb.log({"loss": loss.item()})
