import os

import torch.distributed as dist


def init_distributed(backend="gloo"):
    rank = int(os.environ["RANK"])
    world_size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world_size)
    return rank, world_size


class Callback:
    def on_epoch_end(self, trainer, epoch):
        pass


class GatherMetrics(Callback):
    """Collects the losses of every rank."""

    def on_epoch_end(self, trainer, epoch):
        gathered = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, {"rank": trainer.rank, "loss": trainer.loss})
        trainer.history.append(gathered)


class Trainer:
    def __init__(self, rank, callbacks):
        self.rank = rank
        self.callbacks = callbacks
        self.history = []
        self.loss = 0.0

    def fit(self, epochs):
        for epoch in range(epochs):
            self.loss = 1.0 / (epoch + 1 + self.rank)
            for callback in self.callbacks:
                callback.on_epoch_end(self, epoch)
            dist.barrier()


def main():
    rank, _ = init_distributed()
    callbacks = []
    if rank == 0:
        callbacks.append(GatherMetrics())
    trainer = Trainer(rank, callbacks)
    trainer.fit(epochs=2)
    if rank == 0:
        print(trainer.history)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
