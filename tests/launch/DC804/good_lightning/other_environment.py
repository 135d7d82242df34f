from pytorch_lightning import Trainer
from pytorch_lightning.plugins.environments import LightningEnvironment

trainer = Trainer(devices=4, plugins=[LightningEnvironment()])
