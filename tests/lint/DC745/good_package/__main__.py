"""What a package runs is not imported again by its children."""
import os

import torch
import torch.multiprocessing as mp

from good_package.work import worker

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29500")
mp.spawn(worker, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
