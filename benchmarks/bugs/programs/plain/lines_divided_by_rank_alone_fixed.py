import itertools

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __init__(self, count):
        self.count = count
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()

    def __iter__(self):
        numbers = iter(range(self.count))
        worker = torch.utils.data.get_worker_info()
        share = self.rank * worker.num_workers + worker.id
        yield from itertools.islice(numbers, share, None, self.world_size * worker.num_workers)


def main():
    dist.init_process_group("gloo")
    loader = DataLoader(Lines(24), batch_size=4, num_workers=2)
    seen = torch.zeros(())
    for batch in loader:
        seen += len(batch)
    dist.all_reduce(seen)
    print(f"rank {dist.get_rank()} epoch has {int(seen)} samples")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
