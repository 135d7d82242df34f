import os
import pickle

import numpy as np
import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")


def evaluate(features):
    total = torch.tensor(features, device="cuda").sum()
    dist.all_reduce(total)
    np.save("features.npy", features)  # expect: DC720
    with open("total.pkl", "wb") as handle:  # expect: DC720
        pickle.dump(total.item(), handle)


evaluate(np.zeros((4, 4)))
dist.destroy_process_group()
