"""Work that each node does for itself is dealt out among its own ranks."""

import os

local_rank = int(os.environ["LOCAL_RANK"])
per_node = int(os.environ["LOCAL_WORLD_SIZE"])
for name in sorted(os.listdir("/tmp/unpack"))[local_rank::per_node]:
    print("unpacking", name)
