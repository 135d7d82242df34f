import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


class Hook:
    def after_epoch(self, trainer):
        pass


class SchedulerHook(Hook):
    def after_epoch(self, trainer):
        trainer.scheduler.step()


class PrintHook(Hook):
    def after_epoch(self, trainer):
        print(f"epoch {trainer.epoch} loss {trainer.loss:.4f}")


class Trainer:
    def __init__(self, model, hooks):
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.2)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=1, gamma=0.5)
        self.hooks = hooks

    def fit(self, x, y, epochs):
        for self.epoch in range(epochs):
            loss = nn.functional.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.loss = loss.item()
            for hook in self.hooks:
                hook.after_epoch(self)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Linear(5, 1)
    torch.manual_seed(10 + dist.get_rank())
    x, y = torch.randn(8, 5), torch.randn(8, 1)
    hooks = [SchedulerHook()]
    if dist.get_rank() == 0:
        hooks.append(PrintHook())
    trainer = Trainer(model, hooks)
    trainer.fit(x, y, epochs=3)
    trainer.model = None
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
