"""The forward pass stands two calls deeper, or in a method; the model comes by position, by name, or from the object."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


def step(network: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
    return network(batch)  # expect: DC704


def evaluate(model: torch.nn.Module, batches: list) -> float:
    return sum(float(step(model, batch)) for batch in batches)


def run(batches: list, *rest: int, network: torch.nn.Module) -> None:
    for batch in batches:
        network(batch)  # expect: DC704


class Trainer:
    def __init__(self) -> None:
        self.model = DDP(torch.nn.BatchNorm1d(2))

    def step(self, batch: torch.Tensor) -> torch.Tensor:
        return self.model(batch)

    def evaluate(self, batch: torch.Tensor) -> float:
        return float(self.step(batch))

    def train(self, batch: torch.Tensor) -> None:
        self.step(batch)
        if dist.get_rank() == 0:
            print(self.evaluate(batch))  # expect: DC704

    def preview(self, batch: torch.Tensor) -> None:
        print(self.model(batch))  # expect: DC704


def preview_by_class(trainer: Trainer, batch: torch.Tensor) -> None:
    if dist.get_rank() == 0:
        Trainer.preview(trainer, batch)


def main() -> None:
    dist.init_process_group("gloo")
    model = DDP(torch.nn.BatchNorm1d(2))
    batch = torch.ones(2)
    if dist.get_rank() == 0:
        print(evaluate(model, [batch]))
    if dist.get_rank() == 0:
        run([batch], network=model)
    if dist.get_rank() == 0:
        model.forward(batch)  # expect: DC704
        model(batch)
    trainer = Trainer()
    trainer.train(batch)
    preview_by_class(trainer, batch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
