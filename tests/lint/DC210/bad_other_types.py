import os
from os import environ

os.environ["TOKENIZERS_PARALLELISM"] = False  # expect: DC210
environ["OMP_NUM_THREADS"] = 4  # expect: DC210
os.environ["NCCL_DEBUG"] = None  # expect: DC210
os.environ["CUDA_VISIBLE_DEVICES"] = [0, 1]  # expect: DC210
