from pytorch_lightning import Trainer

trainer = Trainer(devices=4, strategy="ddp", num_nodes=2)
tester = Trainer(devices=1)
