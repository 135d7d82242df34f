from pytorch_lightning import Trainer
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy

trainer = Trainer(devices=4, strategy=DDPStrategy(cluster_environment=LightningEnvironment()))
