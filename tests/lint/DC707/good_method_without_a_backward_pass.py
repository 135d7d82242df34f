import torch
import torch.distributed as dist


class Trainer:
    def __init__(self, model, loader):
        self.plain = torch.nn.Linear(2, 2)
        self.model = torch.nn.parallel.DistributedDataParallel(model)
        self.loader = loader

    def measure(self, batch):
        with torch.no_grad():
            return self.plain(batch).sum()

    def fit_plain(self, batch):
        self.plain(batch).sum().backward()

    def step(self, batch):
        self.model(batch).sum().backward()

    def preview(self):
        for number, batch in enumerate(self.loader):
            self.measure(batch)
            self.fit_plain(batch)
            if number > 3 and dist.get_rank() == 0:
                break

    def train(self):
        for batch in self.loader:
            self.step(batch)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    trainer = Trainer(torch.nn.Linear(2, 2), [])
    trainer.preview()
    trainer.train()
