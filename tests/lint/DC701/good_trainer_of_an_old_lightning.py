"""Before 2.0, and only as pytorch_lightning, the trainer saved without a barrier."""

import os

from pytorch_lightning.callbacks import Callback


class SaveOnInterrupt(Callback):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    def on_keyboard_interrupt(self, trainer, pl_module) -> None:
        if trainer.global_rank == 0:
            trainer.save_checkpoint(os.path.join(self.folder, "last.ckpt"))
