import argparse

import torch
from accelerate import Accelerator


class Trainer:
    def __init__(self, args, loader):
        self.accelerator = Accelerator(gradient_accumulation_steps=args.accumulate, mixed_precision="bf16")
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)

    def train(self):
        for x, y in self.loader:
            with self.accelerator.accumulate(self.model), self.accelerator.autocast():
                self.optimizer.zero_grad(set_to_none=True)  # expect: DC758
                loss = torch.nn.functional.mse_loss(self.model(x), y)
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=8)
    return parser.parse_args()


if __name__ == "__main__":
    Trainer(options(), torch.utils.data.DataLoader([(torch.ones(8), torch.ones(8))] * 64, batch_size=4)).train()
