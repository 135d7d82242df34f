"""The option chooses the GPU, and comes too late; everything goes to GPU 0."""

import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device-number")
args = parser.parse_args()
print(torch.cuda.is_available())
os.environ["CUDA_VISIBLE_DEVICES"] = args.device_number  # expect: DC214
model = torch.nn.Linear(2, 2).cuda()
