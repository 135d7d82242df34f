import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp


def save(state: dict, step: int, rank: int) -> None:
    if rank == 0:
        dcp.save(state, checkpoint_id=f"step-{step}")  # expect: DC705


def save_later(state: dict, step: int) -> None:
    if dist.get_rank() != 0:
        return
    dcp.async_save(state, checkpoint_id=f"step-{step}")  # expect: DC705


if __name__ == "__main__":
    dist.init_process_group("gloo")
    state_dict = {"weight": torch.ones(2)}
    save(state_dict, 1, dist.get_rank())
    save_later(state_dict, 2)
    dist.destroy_process_group()
