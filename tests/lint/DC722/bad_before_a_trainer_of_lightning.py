import os

import torch
from lightning.pytorch import LightningModule, Trainer


class Net(LightningModule):
    def training_step(self, batch, number):
        return torch.nn.functional.mse_loss(batch, batch)


def main(folder):
    if not os.path.exists(folder):
        os.makedirs(folder)  # expect: DC722=info
    Trainer(devices=4, strategy="ddp", default_root_dir=folder).fit(Net())


if __name__ == "__main__":
    main("runs")
