import lightning as L
from lightning.pytorch.strategies import DDPStrategy


def build_trainer(devices: int) -> L.Trainer:
    strategy = DDPStrategy(find_unused_parameters=True)  # expect: DC754
    return L.Trainer(accelerator="gpu", devices=devices, strategy=strategy)
