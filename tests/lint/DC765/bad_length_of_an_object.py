from accelerate import Accelerator
from torch.optim import Adam
from torch.optim.lr_scheduler import CosineAnnealingLR


class Trainer:
    def __init__(self, model, loader, num_train_steps):
        self.accelerator = Accelerator()
        self.num_train_steps = num_train_steps
        self.optimizer = Adam(model.parameters(), lr=1e-4)
        self.scheduler = CosineAnnealingLR(self.optimizer, T_max=num_train_steps)  # expect: DC765=warning
        self.model, self.optimizer, self.scheduler, self.loader = self.accelerator.prepare(
            model, self.optimizer, self.scheduler, loader
        )

    def train(self):
        steps, batches = 0, iter(self.loader)
        while steps < self.num_train_steps:
            self.accelerator.backward(self.model(next(batches)).mean())
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
            steps += 1


def main(model, loader):
    Trainer(model, loader, 1000).train()
