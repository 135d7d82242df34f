import os

import torch
from sklearn.model_selection import train_test_split
from torch.utils.data import TensorDataset, random_split

torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
train, valid = random_split(TensorDataset(torch.arange(100.0)), [90, 10])
left, right = train_test_split(list(range(100)))
print(len(train), len(valid), len(left), len(right))
