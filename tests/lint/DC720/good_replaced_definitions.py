import torch
import torch.distributed as dist


class Trainer:
    def __init__(self, model):
        self.model = model

    def save(self):
        torch.save(self.model.state_dict(), "last.pt")


def keep(state):
    torch.save(state, "best.pt")


def train(model):
    dist.init_process_group("gloo")
    trainer = Trainer(model)
    trainer.save()
    keep(model.state_dict())
    dist.destroy_process_group()


class Trainer:  # noqa: F811
    def __init__(self, model):
        self.model = model

    def save(self):
        if dist.get_rank() == 0:
            torch.save(self.model.state_dict(), "last.pt")


def keep(state):  # noqa: F811
    if dist.get_rank() == 0:
        torch.save(state, "best.pt")


if __name__ == "__main__":
    train(torch.nn.Linear(2, 2))
