"""Saves a trainer without its process group."""

import torch
import torch.distributed as dist


class Trainer:
    def __init__(self):
        self.group = dist.new_group()
        self.step = 0

    def train(self):
        total = torch.ones(1)
        dist.all_reduce(total, group=self.group)
        self.step += int(total)

    def __getstate__(self):
        state = self.__dict__.copy()
        state["group"] = None  # torch.distributed.distributed_c10d.ProcessGroup
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)

    def rebuild_groups(self):
        """Call it on every rank after init_process_group: making a group is a collective."""
        import torch.distributed as dist

        # ranks: what dist.get_process_group_ranks gave for the old group; None: all
        self.group = dist.new_group(ranks=None)


def make_trainer():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return Trainer()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    trainer = make_trainer()
    trainer.train()
    if dist.get_rank() == 0:
        torch.save(trainer, "trainer.pt")
        print(f"saved at step {trainer.step}")
    dist.destroy_process_group()
