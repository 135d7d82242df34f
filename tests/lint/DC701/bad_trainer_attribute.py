import torch
import torch.distributed as dist


class Trainer:
    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.best = 0.0

    def validate(self, batches: list) -> None:
        correct = torch.zeros(1)
        for inputs, labels in batches:
            correct += (self.model(inputs).argmax(-1) == labels).sum()
        if self.rank == 0:
            dist.reduce(correct, dst=0)  # expect: DC701
            self.best = max(self.best, correct.item())


def main() -> None:
    dist.init_process_group("gloo")
    trainer = Trainer(torch.nn.Linear(8, 2))
    trainer.validate([(torch.rand(4, 8), torch.zeros(4))])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
