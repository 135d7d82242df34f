import os

import torch.distributed as dist


class Model:
    def __init__(self):
        self._rank = 0
        self.world = 1

    def join(self):
        self._rank = dist.get_rank()

    @property
    def rank(self):
        return self._rank


def cache_name(sharded):
    model = Model()
    if not sharded:
        model.join()
    # with tensor parallelism all processes are rank 0 of the model
    number = model.rank or int(os.environ.get("LOCAL_RANK", "0"))
    return f"cache_{number}.db"
