import os

import torch


class Trainer:
    def __init__(self, model, path):
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.model = model.to(self.local_rank)
        self.path = path

    def save(self, epoch):
        torch.save({"model": self.model.state_dict(), "epoch": epoch}, self.path)  # expect: DC217=info

    def fit(self, epochs):
        for epoch in range(epochs):
            if self.local_rank == 0 and epoch % 5 == 0:
                self.save(epoch)


if __name__ == "__main__":
    Trainer(torch.nn.Linear(4, 4), "snapshot.pt").fit(20)
