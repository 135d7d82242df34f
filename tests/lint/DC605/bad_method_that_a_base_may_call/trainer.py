import torch.multiprocessing as mp
from engine import Engine


class Trainer(Engine):
    def after_epoch(self, folder):
        def worker():
            print(folder)

        mp.get_context("spawn").Process(target=worker).start()  # expect: DC605


class Plain:
    """No file names this method, and no base can."""

    def after_epochs(self, folder):
        def worker():
            print(folder)

        mp.get_context("spawn").Process(target=worker).start()

    def step(self):
        return 1
