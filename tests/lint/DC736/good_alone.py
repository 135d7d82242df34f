import torch

torch.manual_seed(7)
model = torch.nn.Linear(4, 4)
for _ in range(10):
    noise = torch.randn(8, 4)
    model(noise).sum().backward()
