import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        loss = self.net(batch).mean()
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, index):
        loss = self.net(batch).mean()
        self.log("val/loss", loss, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def main(train, held_back):
    callbacks = [ModelCheckpoint(monitor="val/loss"), EarlyStopping(monitor="train/loss")]
    trainer = Trainer(devices=4, strategy="ddp", callbacks=callbacks)
    trainer.fit(Model(), train, held_back)
