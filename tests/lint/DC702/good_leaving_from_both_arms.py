"""Both arms leave for what needs no broadcast: the sender and the receivers know it alike."""

import torch
import torch.distributed as dist


def share(state: object) -> object:
    if dist.get_rank() == 0:
        if not isinstance(state, torch.Tensor):
            return state
        tensor = state.clone()
    else:
        if isinstance(state, str):
            return state
        tensor = torch.zeros(4)
    dist.broadcast(tensor, src=0)
    return tensor


if __name__ == "__main__":
    dist.init_process_group("gloo")
    share(torch.ones(4))
    dist.destroy_process_group()
