import torch.distributed as dist


class Parallel:
    def __init__(self, size):
        rank = dist.get_rank()
        for start in range(0, dist.get_world_size(), size):
            ranks = list(range(start, start + size))
            group = dist.new_group(ranks)
            if rank in ranks:
                self.group = group
                self.source = ranks[0]

    def share(self, batch):
        dist.broadcast(batch, src=self.source, group=self.group)
        dist.broadcast(batch, src=dist.get_global_rank(self.group, 0), group=self.group)
        dist.broadcast(batch, dist.get_process_group_ranks(self.group)[0], self.group)
        return batch
