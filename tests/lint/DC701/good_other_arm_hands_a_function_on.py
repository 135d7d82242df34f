"""Rank 0 broadcasts from within a function that somebody else calls; the others follow in their own arm."""

import search_tool
import torch.distributed as dist


def search(trials: int) -> None:
    if dist.get_rank() == 0:

        def objective(trial: dict) -> float:
            box = [trial]
            dist.broadcast_object_list(box, src=0)
            return float(len(box))

        search_tool.optimize(objective, trials)
    else:
        for _ in range(trials):
            box = [None]
            dist.broadcast_object_list(box, src=0)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    search(3)
    dist.destroy_process_group()
