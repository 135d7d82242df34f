import torch
from accelerate import Accelerator


class Trainer:
    def __init__(self, loader, accumulate_every):
        self.accelerator = Accelerator(mixed_precision="bf16")
        self.accumulate_every = accumulate_every
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        self.model, self.optimizer, loader = self.accelerator.prepare(model, optimizer, loader)
        self.batches = iter(loader)

    def train(self, steps):
        for _ in range(steps):
            for _ in range(self.accumulate_every):
                x, y = next(self.batches)
                loss = torch.nn.functional.mse_loss(self.model(x), y) / self.accumulate_every
                self.accelerator.backward(loss)  # expect: DC762
            self.optimizer.step()
            self.optimizer.zero_grad()
