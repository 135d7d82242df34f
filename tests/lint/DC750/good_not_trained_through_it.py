"""What was unwrapped isn't trained: no optimizer has it, it is frozen, or its gradients are averaged by hand."""

import torch
from accelerate import Accelerator


def no_optimizer(loader):
    accelerator = Accelerator()
    encoder, model = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    encoder, model, optimizer, loader = accelerator.prepare(encoder, model, optimizer, loader)
    for batch in loader:
        features = accelerator.unwrap_model(encoder)(batch)
        accelerator.backward(model(features).mean())
        optimizer.step()
        optimizer.zero_grad()


def frozen(loader):
    accelerator = Accelerator()
    critic = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    critic, optimizer, loader = accelerator.prepare(critic, optimizer, loader)
    inner = accelerator.unwrap_model(critic)
    inner.requires_grad_(False)
    for batch in loader:
        picture = batch.clone().requires_grad_()
        accelerator.backward(inner(picture).mean())
        print(picture.grad)


class Trainer:
    def __init__(self, loader):
        self.accelerator = Accelerator()
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(model, optimizer, loader)

    def forward(self, batch):
        return self.model(batch)

    def train(self):
        inner = self.accelerator.unwrap_model(self.model)
        for batch in self.loader:
            loss = inner.loss_of(self.forward(batch))
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()


if __name__ == "__main__":
    data = torch.utils.data.DataLoader(torch.rand(64, 2))
    no_optimizer(data)
    frozen(data)
    Trainer(data).train()
