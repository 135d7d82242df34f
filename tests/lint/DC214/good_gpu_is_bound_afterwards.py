"""The mask is what another variable holds, and the process binds its GPU by number after it."""

import os

import torch


class Worker:
    def __init__(self):
        if "AMD" in torch.cuda.get_device_name():
            os.environ["CUDA_VISIBLE_DEVICES"] = os.getenv("ROCR_VISIBLE_DEVICES")  # expect: DC214=info
            torch.cuda.set_device(int(os.getenv("RAY_LOCAL_RANK", "0")))
