import argparse

import pytorch_lightning as pl

parser = argparse.ArgumentParser()
parser = pl.Trainer.add_argparse_args(parser)
print(parser.parse_args())
