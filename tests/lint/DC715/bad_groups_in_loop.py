import torch.distributed as dist


class Parallel:
    def __init__(self, size):
        self.group = None
        rank = dist.get_rank()
        for start in range(0, dist.get_world_size(), size):
            ranks = list(range(start, start + size))
            group = dist.new_group(ranks)
            if rank in ranks:
                self.group = group

    def share(self, batch):
        dist.broadcast(batch, src=0, group=self.group)  # expect: DC715
        return batch
