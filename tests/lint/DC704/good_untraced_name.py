"""Whether this model is wrapped is the caller's affair, and no caller is here."""

import torch
import torch.distributed as dist


def sample(model: torch.nn.Module, noise: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() == 0:
        return model(noise)
    return noise


class Sampler:
    def __init__(self, ddp_model: torch.nn.Module) -> None:
        self.ddp_model = ddp_model

    def draw(self, noise: torch.Tensor) -> None:
        if dist.get_rank() == 0:
            print(self.ddp_model(noise))
