import os

import torch


def device():
    local_rank = int(os.environ.get("LOCAL_RANK", "-1"))
    if local_rank < 0:
        return torch.device("cpu")
    return torch.device("cuda", local_rank)


print(torch.ones(1, device=device()))
