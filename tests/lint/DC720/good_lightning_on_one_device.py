import json
import sys

import pytorch_lightning as pl
import torch


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        return self.layer(batch).mean()

    def on_validation_epoch_end(self):
        torch.save(self.layer.state_dict(), "best.pt")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(gpu):
    trainer = pl.Trainer(accelerator="gpu", devices=[gpu] if gpu >= 0 else None, strategy="ddp")
    trainer.fit(Net(), torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=4))
    with open("results.json", "w") as file:
        json.dump({"loss": float(trainer.callback_metrics["loss"])}, file)


def once():
    trainer = pl.Trainer(accelerator="gpu", devices=1)
    trainer.fit(Net(), torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=4))
    with open("once.json", "w") as file:
        json.dump({"loss": float(trainer.callback_metrics["loss"])}, file)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(int(sys.argv[1]))
    else:
        once()
