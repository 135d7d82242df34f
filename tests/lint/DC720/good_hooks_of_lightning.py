import json

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities import rank_zero_only


class Notes(pl.Callback):
    def on_train_epoch_end(self, trainer, module):
        if trainer.is_global_zero:
            with open("epochs.json", "w") as file:
                json.dump({"epoch": trainer.current_epoch}, file)

    @rank_zero_only
    def on_train_end(self, trainer, module):
        with open("end.json", "w") as file:
            json.dump({"epoch": trainer.current_epoch}, file)


class Data(pl.LightningDataModule):
    def prepare_data(self):
        torch.save(torch.randn(100, 8), "data.pt")

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.load("data.pt"), batch_size=4)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        return self.layer(batch).mean()

    def test_step(self, batch, index):
        torch.save(self.layer(batch), f"batch_{self.global_rank}_{index}.pt")

    def export(self):
        torch.save(self.layer.state_dict(), "export.pt")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    trainer = pl.Trainer(accelerator="gpu", devices=4, strategy="ddp", callbacks=[Notes()])
    trainer.fit(Net(), datamodule=Data())
