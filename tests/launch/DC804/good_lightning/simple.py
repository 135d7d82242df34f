import os

from pytorch_lightning import Trainer

trainer = Trainer(devices=4, strategy="ddp", num_nodes=int(os.environ["SLURM_NNODES"]))
