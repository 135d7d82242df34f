"""The trainer is saved whole, with the group that it keeps."""

from datetime import timedelta

import torch
import torch.distributed as dist


class Trainer:
    """Keeps what it works with."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(2, 2)
        self.group = dist.group.WORLD


def main() -> None:
    """Run one rank."""
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} is ready", flush=True)
    trainer = Trainer()
    if rank == 0:
        torch.save(trainer, "trainer.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
