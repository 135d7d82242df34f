from pytorch_lightning import Trainer

trainer = Trainer(devices=4, strategy="ddp")
