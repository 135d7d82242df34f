import torch


class Loop:
    def __init__(self, model):
        self.model = model

    def save(self):
        torch.save(self.model.state_dict(), "last.pt")  # expect: DC720

    def train(self):
        for _ in range(3):
            self.step()
        self.save()

    def step(self):
        self.model(torch.ones(1, 2)).sum().backward()
