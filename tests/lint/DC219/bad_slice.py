"""Shards are taken by the local rank out of as many as there are ranks."""

import os

files = sorted(os.listdir("shards"))
local_rank = int(os.environ["LOCAL_RANK"])
world_size = int(os.environ["WORLD_SIZE"])
mine = files[local_rank::world_size]  # expect: DC219=info
print(mine)
