"""A conversion by one process alone: no_dist says so."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp


def export(weights: dict, folder: str) -> None:
    if dist.get_rank() == 0:
        dcp.save(weights, checkpoint_id=folder, no_dist=True)
        torch.save(weights, "export.pt")


if __name__ == "__main__":
    dist.init_process_group("gloo")
    export({"weight": torch.ones(2)}, "exported")
    dist.destroy_process_group()
