import argparse

import lightning.pytorch as pl

parser = argparse.ArgumentParser()
parser.add_argument("--num_nodes", default=1)
args = parser.parse_args()
trainer = pl.Trainer(devices=4, num_nodes=args.num_nodes)
