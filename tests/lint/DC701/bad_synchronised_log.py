import lightning as L
import torch


class Regressor(L.LightningModule):
    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        loss = batch.mean()
        if self.global_rank == 0:
            self.log("loss", loss, sync_dist=True)  # expect: DC701
        return loss


def finish(trainer: L.Trainer) -> None:
    if trainer.is_global_zero:
        trainer.save_checkpoint("last.ckpt")  # expect: DC701
