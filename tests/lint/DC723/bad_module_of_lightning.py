import sys

import lightning.pytorch as pl
import torch


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main(path):
    net = Net.load_from_checkpoint(path)  # expect: DC723=info
    trainer = pl.Trainer(accelerator="gpu", devices=4, strategy="ddp")
    trainer.fit(net, torch.utils.data.DataLoader(torch.randn(100, 8), batch_size=4))


if __name__ == "__main__":
    main(sys.argv[1])
