"""A loop with Lightning: it starts the other processes itself."""

import os

import lightning
import torch


class Fit(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8)
    trainer = lightning.Trainer(
        devices=2,
        num_nodes=int(os.environ.get("SLURM_NNODES", "1")),
        strategy="ddp",
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
    )
    trainer.fit(Fit(), loader)
