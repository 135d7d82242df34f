import torch
from accelerate import Accelerator


class Trainer:
    def __init__(self, max_steps):
        self.accelerator = Accelerator()
        self.iters = 0
        self.max_steps = max_steps
        model = torch.nn.Linear(2, 2)
        self.model, self.loader = self.accelerator.prepare(model, torch.utils.data.DataLoader([1, 2, 3]))

    def step(self, batch):
        loss = self.model(batch).sum()
        self.accelerator.backward(loss)
        self.iters += 1

    def train(self):
        for epoch in range(100):
            for i, batch in enumerate(self.loader):
                self.step(batch)
                if self.iters >= self.max_steps and self.accelerator.is_main_process:
                    print("done")
                    exit()  # expect: DC707


if __name__ == "__main__":
    Trainer(10).train()
