import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        return self.net(batch).mean()

    def validation_step(self, batch, index):
        loss = self.net(batch).mean()
        self.log("val/loss", loss)  # expect: DC739=info
        self.log("val/other", loss)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def main(train, held_back):
    trainer = Trainer(devices=4, strategy="ddp", callbacks=[ModelCheckpoint(monitor="val/loss")])
    trainer.fit(Model(), train, held_back)
