import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, model):
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def prepare(self):
        self.model.train()
        self.optimizer.zero_grad(set_to_none=False)

    def update(self, loss):
        loss.backward()
        self.prepare()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def fit(self, batches):
        for step, (inputs, targets) in enumerate(batches):
            self.prepare()
            loss = nn.functional.cross_entropy(self.model(inputs), targets)
            self.update(loss)
            if dist.get_rank() == 0:
                print(f"step {step} loss {loss.item():.4f}")


def batches(rank, count):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(count):
        inputs = torch.randn(8, 6, generator=generator)
        yield inputs, inputs[:, :3].argmax(1)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    trainer = Trainer(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)))
    trainer.fit(batches(dist.get_rank(), 5))
    del trainer
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
