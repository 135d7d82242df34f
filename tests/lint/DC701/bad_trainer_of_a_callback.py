import os

from lightning.pytorch.callbacks import Callback


class SaveOnError(Callback):
    def __init__(self, folder: str, debug: bool) -> None:
        self.folder = folder
        self.debug = debug

    def on_exception(self, trainer, pl_module, exception) -> None:
        if not self.debug and trainer.global_rank == 0:
            trainer.save_checkpoint(os.path.join(self.folder, "last.ckpt"))  # expect: DC701=warning
