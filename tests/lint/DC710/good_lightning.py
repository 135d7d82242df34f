import pytorch_lightning as pl
import torch


class Matcher(pl.LightningModule):
    def training_step(self, batch, index):
        features = self.encoder(batch)
        features = self.all_gather(features, sync_grads=True)
        return torch.logsumexp(features.flatten(0, 1), dim=0).mean()
