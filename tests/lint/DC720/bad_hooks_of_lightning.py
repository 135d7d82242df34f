import json

import lightning.pytorch as pl
import torch


class Notes(pl.Callback):
    def on_train_epoch_end(self, trainer, module):
        with open("epochs.json", "w") as file:  # expect: DC720=info
            json.dump({"epoch": trainer.current_epoch}, file)


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        return self.layer(batch).mean()

    def test_step(self, batch, index):
        torch.save(self.layer(batch), "last_batch.pt")  # expect: DC720=info

    def on_validation_epoch_end(self):
        self.keep("best.pt")

    def keep(self, path):
        torch.save(self.layer.state_dict(), path)  # expect: DC720=info

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    trainer = pl.Trainer(accelerator="gpu", devices=4, strategy="ddp", callbacks=[Notes()])
    trainer.fit(Net(), torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=4))
