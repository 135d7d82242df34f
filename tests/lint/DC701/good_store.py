"""Keys of a store are no collectives."""

from datetime import timedelta

import torch.distributed as dist


def elect(store: dist.Store) -> str:
    if dist.get_rank() == 0:
        store.set("leader", "0")
    store.wait(["leader"], timedelta(seconds=30))
    return store.get("leader").decode()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    elect(dist.distributed_c10d._get_default_store())
    dist.destroy_process_group()
