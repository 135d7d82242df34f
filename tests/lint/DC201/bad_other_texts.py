"""Three more ways to spell the text of a device."""

import os

import torch

rank = int(os.environ.get("RANK", "0"))
first = torch.device("cuda:{}".format(rank))  # expect: DC201=info
second = torch.device("cuda:%d" % rank)  # expect: DC201=info
third = torch.device("cuda:" + str(rank))  # expect: DC201=info
print(torch.ones(1, device=first), torch.ones(1, device=second), torch.ones(1, device=third))
